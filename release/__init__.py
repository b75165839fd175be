"""A release in dist/release: `make release VERSION=x`. docs/how-to/make-a-release.md says what it needs and makes."""
