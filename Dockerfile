# A node of kraftline in a container, with the variables of the apache/kafka image (docs/docker.md).
#
#   docker build -t kraftline .
#   docker run -p 9092:9092 kraftline
#
# tests/interop/test_docker.py carries out COPY, RUN and CMD in a bare directory.
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
COPY . /src
RUN python -m venv /opt/kraftline \
 && /opt/kraftline/bin/pip install --no-cache-dir --compile /src

FROM ${PYTHON}
COPY --from=build /opt/kraftline /opt/kraftline
COPY scripts/docker/run /opt/kraftline/bin/run
RUN mkdir -p /var/lib/kafka/data /mnt/shared/config \
 && chown -R 1000:1000 /var/lib/kafka /mnt/shared/config \
 && chmod 755 /opt/kraftline/bin/run

# CLUSTER_ID is the default of the apache/kafka image. A variable KAFKA_... here would replace all
# defaults of a node, so there is none.
ENV PATH=/opt/kraftline/bin:$PATH \
    HOME=/tmp \
    CLUSTER_ID=5L6g3nShT-eMCtK--X86sw
USER 1000:1000
EXPOSE 9092
VOLUME ["/var/lib/kafka/data", "/mnt/shared/config"]
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 CMD ["run", "ready"]
ENTRYPOINT ["run"]
