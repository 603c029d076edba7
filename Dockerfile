# The agent and the trigger, alone in an image: two static binaries, the certificates that they trust, and no shell.
# BASE may be any image that runs a static binary, for example a distroless one of your own.
ARG GO_IMAGE=golang:1.26-bookworm
ARG BASE=scratch

FROM --platform=${BUILDPLATFORM:-linux/amd64} ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
ARG TARGETOS=linux
ARG TARGETARCH
RUN CGO_ENABLED=0 GOOS=${TARGETOS} GOARCH=${TARGETARCH:-$(go env GOARCH)} \
    go build -trimpath -buildvcs=false -ldflags="-s -w -X main.version=${VERSION}" -o /out/ ./cmd/agent ./cmd/trigger

FROM ${BASE}
ARG VERSION=devel
LABEL org.opencontainers.image.title="node-drainer" \
      org.opencontainers.image.description="Drains Kubernetes nodes on AWS before their instances go" \
      org.opencontainers.image.source="https://github.com/node-drainer/node-drainer" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY LICENSE /LICENSE
COPY --from=build /out/agent /out/trigger /
# By number, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
ENTRYPOINT ["/agent"]
