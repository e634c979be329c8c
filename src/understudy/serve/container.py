"""Files for a container that serves an artifact: Dockerfile, compose file, Kubernetes manifest."""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path

from understudy.artifacts.artifact import ARTIFACT, CARD, checked_file, read_artifact, shipped_inside
from understudy.errors import ModelError, OutputError

_USER = 10001

_DOCKERFILE = """\
# Build and run:
#   docker build --tag {name} .
#   docker run --read-only --tmpfs /tmp --publish 8000:8000 {name}
FROM python:3.12-slim

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Wheels in wheels/ are preferred to published ones, e.g. an understudy that you built yourself.
COPY requirements.txt /build/
COPY wheels /build/wheels
RUN pip install --no-cache-dir --find-links /build/wheels --requirement /build/requirements.txt

COPY --chown={user}:{user} artifact /artifact

# Nobody's account: no home, no shell, no right to write.
USER {user}:{user}
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=2s --start-period=20s CMD ["python", "-c", "{probe}"]
# One worker, whatever the host has; --workers N uses N cores.
CMD ["understudy", "serve", "student=/artifact", "--host", "0.0.0.0", "--workers", "1", "--port", "8000"]
"""

_PROBE = "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=2)"

_COMPOSE = """\
services:
  {name}:
    build: .
    ports:
      - "127.0.0.1:8000:8000"
    read_only: true
    tmpfs:
      - /tmp
    cap_drop:
      - ALL
    security_opt:
      - no-new-privileges:true
    stop_grace_period: 35s
    restart: unless-stopped
"""

_KUBERNETES = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels:
    app: {name}
spec:
  replicas: 2
  selector:
    matchLabels:
      app: {name}
  strategy:
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  template:
    metadata:
      labels:
        app: {name}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8000"
    spec:
      automountServiceAccountToken: false
      # Two seconds to leave the load balancer, thirty for the slowest request.
      terminationGracePeriodSeconds: 35
      securityContext:
        runAsNonRoot: true
        runAsUser: {user}
        runAsGroup: {user}
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {name}
          image: {name}:latest  # the image that you built and pushed
          # One worker: more replicas scale better than more workers in one.
          args: ["understudy", "serve", "student=/artifact", "--host", "0.0.0.0", "--workers", "1",
                 "--max-bytes", "1000000", "--max-in-flight", "32"]
          ports:
            - name: http
              containerPort: 8000
          startupProbe:
            httpGet:
              path: /v2/health/ready
              port: http
            periodSeconds: 1
            failureThreshold: 60
          readinessProbe:
            httpGet:
              path: /v2/health/ready
              port: http
            periodSeconds: 1
            timeoutSeconds: 2
            failureThreshold: 3
          livenessProbe:
            httpGet:
              path: /v2/health/live
              port: http
            periodSeconds: 10
            timeoutSeconds: 5
          resources:
            requests:
              cpu: "1"
              memory: {memory}Mi
            limits:
              memory: {limit}Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
          volumeMounts:
            - name: tmp
              mountPath: /tmp
      volumes:
        - name: tmp
          emptyDir:
            medium: Memory
            sizeLimit: 16Mi
---
apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  selector:
    app: {name}
  ports:
    - name: http
      port: 80
      targetPort: http
"""

# Measured for Python, ONNX Runtime and the server without a model; a model takes about twice its file size.
_BASE_MEGABYTES = 110


def write_container(artifact: str | Path, folder: str | Path) -> list[str]:
    """Write the files of a container that serves an artifact.

    Args:
        folder: gets the files; must be new or empty.

    Returns:
        The names of the files.
    """
    source, target = shipped_inside(artifact), Path(folder).expanduser()
    check_container_folder(target)
    described = read_artifact(source)
    name = "".join(letter if letter.isalnum() else "-" for letter in described.task.lower()) + "-student"
    chosen = described.models[described.default]
    memory = _BASE_MEGABYTES + round(2 * chosen.bytes / 1e6)
    copies = {ARTIFACT: source / ARTIFACT}
    for file in described.files:
        if Path(file).is_absolute() or ".." in Path(file).parts:
            raise ModelError(f"{source}: {file} lies outside of the artifact.")
        if not _is_other_form(file, chosen.file):
            copies[file] = checked_file(source, described, file)
    if (source / CARD).is_file():
        copies[CARD] = source / CARD
    for file, path in copies.items():
        (target / "artifact" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / "artifact" / file)
    values = {"name": name, "user": _USER, "memory": memory, "limit": 2 * memory + 64, "probe": _PROBE}
    files = {
        "Dockerfile": _DOCKERFILE,
        "compose.yaml": _COMPOSE,
        "kubernetes.yaml": _KUBERNETES,
        "requirements.txt": f"understudy-distill[serve]=={version('understudy-distill')}\n",
        ".dockerignore": "compose.yaml\nkubernetes.yaml\n",
        "wheels/.gitkeep": "",
    }
    for file, text in files.items():
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        (target / file).write_text(text.format(**values), "utf-8")
    return [*files, "artifact/"]


def check_container_folder(folder: Path) -> None:
    """Refuse a folder in use."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"{folder} is not empty. Use another --container.")


def _is_other_form(file: str, chosen: str) -> bool:
    """Return whether a file holds weights that the server will not use."""
    return file.startswith(("onnx/", "openvino/")) and Path(file).with_suffix("") != Path(chosen).with_suffix(
        ""
    )
