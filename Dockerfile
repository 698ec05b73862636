# The command line in a container:
#   docker build -t cutplane .
#   docker run --rm -v "$PWD:/data" cutplane fit train.svm --out model
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
# Compiled code that any processor of this kind can run, made here and not at the first fit.
ENV NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=/var/cache/cutplane
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[plot,onnx]" && rm -rf /wheels \
    && cutplane warm-up classification regression --quiet \
    && chmod -R a+rwX /var/cache/cutplane
WORKDIR /data
ENTRYPOINT ["cutplane"]
CMD ["--help"]
