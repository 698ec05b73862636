# The command line in a container:
#   docker build -t cutplane .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" cutplane fit train.csv --target y --out model
FROM python:3.12-slim AS build
# The version is made of the tags.
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
# Compiled code that any processor of this kind can run, made here and not at the first fit. Users
# without a home have a place for the settings of matplotlib.
ENV NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=/var/cache/cutplane MPLCONFIGDIR=/tmp/matplotlib
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[plot,tables]" && rm -rf /wheels \
    && cutplane warm-up classification regression --quiet \
    && chmod -R a+rwX /var/cache/cutplane
WORKDIR /data
ENTRYPOINT ["cutplane"]
CMD ["--help"]
