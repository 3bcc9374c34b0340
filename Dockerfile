# The page in a container that runs as a user without rights, on a root that can be read-only:
#   docker build -t pld-lens .
#   docker run --read-only --tmpfs /tmp -v pld-lens:/cache -p 127.0.0.1:7860:7860 pld-lens
FROM python:3.12-slim

RUN useradd --uid 1000 --no-create-home lens && install -d -o lens /cache
WORKDIR /app
COPY requirements.txt constraints.txt ./
# PyTorch's build for CPUs. The one on PyPI brings CUDA, five gigabytes of it; for a GPU build with
#   --build-arg TORCH_INDEX=https://pypi.org/simple
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --no-deps --index-url "$TORCH_INDEX" torch -c constraints.txt \
    && pip install --no-cache-dir -r requirements.txt -c constraints.txt
COPY app.py README.md LICENSE ./
COPY pld_core pld_core
COPY static static
# Readable also where the checkout is its owner's alone.
RUN chmod -R a+rX .

USER lens
VOLUME /cache
ENV HOST=0.0.0.0 PORT=7860 PLD_HOSTED=1 \
    PLD_CACHE=/cache/pld-lens HF_HOME=/cache/huggingface HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=3m \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/health')"]
ENTRYPOINT ["python", "app.py"]
