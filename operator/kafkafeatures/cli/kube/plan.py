"""`kafkafeatures plan NAME`: the plan in the status of a resource, in the same form as `plan -f FILE`.

It computes nothing and does not connect to Kafka: it shows what the operator read and decided. Fields that a status
does not have are left out of the document: `nodes`, `notRead`, `serverVerdict`. Called by `cli/document/plan.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from kafkafeatures.api.reasons import PlanVerdict
from kafkafeatures.api.records import Json
from kafkafeatures.api.status import read_status
from kafkafeatures.cli.cluster.drawn import show
from kafkafeatures.cli.kube.resource import KubeResource
from kafkafeatures.cli.shell.output import DRAWN, print_document
from kafkafeatures.core.report.plan_document import document_of_status


def show_plan(resource: KubeResource, form: str, title: str) -> PlanVerdict:
    """Print the plan, and return its verdict. title: of the picture or page (`-o svg`, `-o html`)."""
    document = plan_document_of(resource)
    verdict: PlanVerdict = document["verdict"]
    if form in DRAWN:
        from kafkafeatures.cli.kube.status_text import draw_plan_of

        current_time = datetime.now(UTC)

        def page() -> str:
            from kafkafeatures.cli.pages.resource import plan_page

            return plan_page(resource, verdict, current_time)

        show(form, lambda console: draw_plan_of(console, resource, verdict, current_time), title, page)
    else:
        print_document(document, form)
    return verdict


def plan_document_of(resource: KubeResource) -> Json:
    """The plan in the status of a resource, as far as this release understands it."""
    status, _ = read_status(resource.written_status)
    return document_of_status(status, name=str(resource), generation=resource.generation, approved=resource.is_approved)
