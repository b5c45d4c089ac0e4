# The image of the operator: `docker build -t berth .`
# In a cluster it finds its credentials by itself; elsewhere: docker run -v ~/.kube:/kube:ro berth run --standalone --kubeconfig /kube/config

FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/berth
COPY constraints.txt ./
RUN /opt/berth/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt setuptools
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN /opt/berth/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt --no-build-isolation . \
 && /opt/berth/bin/pip uninstall --yes --quiet setuptools pip

FROM python:3.13-slim
COPY --from=build /opt/berth /opt/berth
ENV PATH=/opt/berth/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, so that Kubernetes can verify runAsNonRoot.
USER 65532:65532
ENTRYPOINT ["berth"]
CMD ["run", "--standalone"]
