# The image of the operator: `make image`, or `docker build -t berth .`
# In a cluster it finds its credentials by itself; elsewhere: docker run -v ~/.kube:/kube:ro berth run --standalone --kubeconfig /kube/config
#
# What is installed is what requirements.lock names, as wheels whose hashes are in it, so that the same sources make the same
# image, wherever the packages come from.
# tests/image performs these steps in a folder of its own: what it does not understand, it refuses.

# Both stages have the same Python, by version; a digest makes it the same to the byte: --build-arg PYTHON=3.13-slim@sha256:...
ARG PYTHON=3.13-slim

FROM python:${PYTHON} AS build
WORKDIR /src
RUN ["python", "-m", "venv", "/opt/berth"]
COPY requirements.lock ./
RUN ["/opt/berth/bin/pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--no-compile", "--only-binary=:all:", "--no-deps", "--require-hashes", "--requirement=requirements.lock"]
COPY pyproject.toml setup.py README.md LICENSE ./
COPY crds crds
COPY policies policies
COPY operator operator
# Berth itself is built from its sources, with the setuptools from above; nothing else is fetched, and nothing may be missing.
RUN ["/opt/berth/bin/pip", "install", "--no-cache-dir", "--disable-pip-version-check", "--no-compile", "--no-deps", "--no-index", "--no-build-isolation", "."]
RUN ["/opt/berth/bin/pip", "check", "--disable-pip-version-check"]
# Nothing is installed at run time.
RUN ["/opt/berth/bin/python", "-m", "pip", "uninstall", "--yes", "--quiet", "setuptools", "pip"]
# What is in the image, for scanners: CycloneDX.
COPY tools/sbom.py ./
RUN ["/opt/berth/bin/python", "/src/sbom.py", "/opt/berth/sbom.cdx.json"]
# Compiled once, as nothing can be written at run time; by content, so that no time of day is in it.
RUN ["/opt/berth/bin/python", "-m", "compileall", "-q", "-j0", "--invalidation-mode=unchecked-hash", "/opt/berth/lib"]

FROM python:${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="berth" \
      org.opencontainers.image.description="A Kubernetes scheduler that you program with kubectl" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/berth /opt/berth
# One thread decides: numpy must not start others.
ENV PATH=/opt/berth/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1
# A number, so that Kubernetes can verify runAsNonRoot.
USER 65532:65532
EXPOSE 10259
# As the probes of the chart; Kubernetes itself does not look at this. The certificate is one that Berth has made for itself.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 \
  CMD ["/opt/berth/bin/python", "-c", "import ssl, urllib.request as r; r.urlopen('https://127.0.0.1:10259/livez', timeout=5, context=ssl._create_unverified_context())"]
ENTRYPOINT ["berth"]
CMD ["run"]
