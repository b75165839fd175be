# The operator and the command line in one image; `docker build .`, or another builder that supports `FROM --platform`.
#
# The bases are arguments: images with Python 3.11 or newer, or plain Debian with python3 (and python3-venv to build). The
# interpreter has to be at the same path in both, since the virtual environment points at it. Behind an index of your own,
# give a BUILD_BASE with an /etc/pip.conf and the certificates it needs: nothing of that base gets into the image.
ARG BUILD_BASE=python:3.11-slim
ARG RUNTIME_BASE=python:3.11-slim

# This stage runs on the machine that builds, also for another platform: pip fetches the wheels of that platform, and no
# program of the image is executed. So no emulation is needed.
FROM --platform=$BUILDPLATFORM ${BUILD_BASE} AS build
ARG TARGETARCH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# Two environments: what installs is no part of what runs.
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/venv
COPY requirements/build.lock requirements/operator.lock requirements/
RUN /opt/build/bin/pip install --require-hashes --only-binary :all: -r requirements/build.lock && \
    here=$(uname -m) && there=$here && case "$TARGETARCH" in amd64) there=x86_64 ;; arm64) there=aarch64 ;; esac && \
    if [ $there != $here ]; then for one in manylinux_2_28 manylinux_2_17 manylinux2014; do \
      foreign="$foreign --platform ${one}_$there"; done; fi && \
    site=$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
    /opt/build/bin/pip --python /opt/venv/bin/python install --no-compile --require-hashes --only-binary :all: $foreign --target $site \
      -r requirements/operator.lock && \
    rm -rf $site/bin
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN /opt/build/bin/pip wheel --no-deps --no-index --no-build-isolation --wheel-dir /opt/wheel . && \
    /opt/build/bin/pip --python /opt/venv/bin/python install --no-compile --no-deps --no-index /opt/wheel/*.whl && \
    /opt/venv/bin/python -m compileall -q -f --invalidation-mode unchecked-hash /opt/venv/lib

# Named for builders that otherwise take the platform of the stage above.
FROM --platform=$TARGETPLATFORM ${RUNTIME_BASE}
LABEL org.opencontainers.image.title="kafka-features-operator" \
      org.opencontainers.image.description="Reconciles the finalized feature levels of Apache Kafka clusters" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/venv /opt/venv
# /tmp is the only place it writes to.
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["kafkafeatures"]
CMD ["run"]
