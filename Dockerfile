# Agent, trigger and handover, alone in an image: three static binaries, the certificates that they trust, the licenses
# of what is in them, and no shell. GO_IMAGE may be any image with Go, a shell and certificates. It is named with its
# registry: buildah refuses short names where no registry is set for them. BASE may be any image that runs a static
# binary, for example a distroless one of your own. make image sets the other arguments.
ARG GO_IMAGE=docker.io/library/golang:1.26.8-bookworm@sha256:a688600ca24f8a4d3ca77f95b0dd40704a9fc787c826660eb7ba0b641b8b175d
ARG BASE=scratch

# Runs on the platform of the machine that builds, and compiles for the one that is asked for: nothing is emulated.
# Old versions of buildah do not know BUILDPLATFORM here, and are told it or take the default.
FROM --platform=${BUILDPLATFORM:-linux/amd64} ${GO_IMAGE} AS build
WORKDIR /src
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=devel
ARG SOURCE_DATE_EPOCH=0
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    set -eu; export CGO_ENABLED=0 GOFLAGS=-buildvcs=false; \
    go tool -modfile=tools/licenses/go.mod go-licenses save ./cmd/... --save_path=/rootfs/licenses; \
    GOOS=$TARGETOS GOARCH=$TARGETARCH \
        go build -trimpath -ldflags="-s -w -X main.version=$VERSION" -o /rootfs/ ./cmd/...; \
    mkdir -p /rootfs/etc/ssl/certs /rootfs/licenses/go; \
    cp /etc/ssl/certs/ca-certificates.crt /rootfs/etc/ssl/certs/; \
    cp "$(go env GOROOT)/LICENSE" /rootfs/licenses/go/; \
    cp LICENSE /rootfs/; \
    chmod -R u=rwX,go=rX /rootfs; \
    find /rootfs -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

FROM ${BASE}
ARG VERSION=devel
ARG REVISION
ARG CREATED
LABEL org.opencontainers.image.title="node-drainer" \
      org.opencontainers.image.description="Drains Kubernetes nodes on AWS before their instances go" \
      org.opencontainers.image.url="https://github.com/node-drainer/node-drainer" \
      org.opencontainers.image.source="https://github.com/node-drainer/node-drainer" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"
COPY --from=build /rootfs/ /
# By number, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
ENTRYPOINT ["/agent"]
