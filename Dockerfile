# The gateway alone: no Node, no Python. See the commented stage for servers that need them.
#
#   docker build -t portcullis .
#   docker run --network host -v ./portcullis.yaml:/etc/portcullis/portcullis.yaml:ro \
#     -v ./tenants:/etc/portcullis/tenants:ro -v portcullis:/var/lib/portcullis portcullis
#
# Without authentication the daemon binds loopback only, and loopback is the container's own: hence `--network host`.

FROM rust:1.95-bookworm AS build
WORKDIR /src

# Dependencies first: this layer is built again only when a manifest changes.
COPY Cargo.toml Cargo.lock ./
COPY crates/wire/Cargo.toml      crates/wire/
COPY crates/admission/Cargo.toml crates/admission/
COPY crates/config/Cargo.toml    crates/config/
COPY crates/upstream/Cargo.toml  crates/upstream/
COPY crates/gateway/Cargo.toml   crates/gateway/
COPY crates/testkit/Cargo.toml   crates/testkit/
RUN mkdir -p crates/daemon crates/upstream/examples tests \
 && for crate in wire admission config upstream gateway testkit; do touch crates/$crate/lib.rs; done \
 && echo 'fn main() {}' | tee crates/daemon/main.rs > crates/upstream/examples/supervised.rs \
 && touch tests/main.rs \
 && cargo build --release --locked

COPY crates crates
COPY config config
# Newer than the stand-ins above, or Cargo would keep what it built from them.
RUN find crates -name '*.rs' -exec touch {} + \
 && cargo build --release --locked

FROM debian:bookworm-slim AS runtime
RUN useradd --system --uid 10001 --home-dir /var/lib/portcullis --shell /usr/sbin/nologin portcullis \
 && install -d -o portcullis -g portcullis -m 0700 /var/lib/portcullis \
 && install -d /etc/portcullis
COPY --from=build /src/target/release/portcullis /usr/local/bin/portcullis
USER portcullis
WORKDIR /etc/portcullis
VOLUME /var/lib/portcullis
EXPOSE 7420 7421
# The daemon handles SIGTERM and its supervisors reap what they start, so no init stands in front of it.
ENTRYPOINT ["portcullis"]
CMD ["serve", "--config", "/etc/portcullis/portcullis.yaml"]

# For stdio servers from npm and PyPI, build this stage as well (`docker build --target servers`). Pin what you run:
# `npx` and `uvx` would otherwise fetch packages when a server starts.
#
# FROM runtime AS servers
# USER root
# RUN apt-get update && apt-get install -y --no-install-recommends nodejs npm python3-venv ca-certificates \
#  && rm -rf /var/lib/apt/lists/* \
#  && npm install -g @modelcontextprotocol/server-filesystem@VERSION \
#  && python3 -m venv /opt/servers && /opt/servers/bin/pip install --no-cache-dir mcp-server-time==VERSION
# USER portcullis
