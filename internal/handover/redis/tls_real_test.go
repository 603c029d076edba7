//go:build e2e

package redis_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-drainer/node-drainer/internal/handover/workload"
	"github.com/node-drainer/node-drainer/pkg/handover"
	"github.com/node-drainer/node-drainer/test/redisserver"
)

const (
	serverName = "redis.shop.svc" // in the certificates of the servers
	tlsPort    = "6380"
)

// TestTLS hands over by TLS alone, with the certificates of the Secret, and names what is wrong with them.
func TestTLS(t *testing.T) {
	t.Parallel()
	group, err := redisserver.NewReplication(t.Context(), 2)
	f := newFixture(t, group, err)
	ours, others := newAuthority(t), newAuthority(t)
	f.secure(ours)
	client := ours.issue("node-drainer")
	right := map[string][]byte{
		"username": []byte(redisserver.Username), "password": []byte(redisserver.Password),
		"ca.crt": ours.certificate, "tls.crt": client.certificate, "tls.key": client.key,
	}
	for _, tt := range []struct {
		key   string // of the Secret
		value []byte
		want  string // in the answer
	}{
		{"ca.crt", others.certificate, "certificate signed by unknown authority"},
		{"ca.crt", []byte("x"), "ca.crt of the Secret has no certificate"},
		{"tls.crt", nil, "certificate required"},
		{"tls.key", others.issue("x").key, "tls.crt and tls.key of the Secret do not fit"},
	} {
		wrong := maps.Clone(right)
		wrong[tt.key] = tt.value
		f.releaser = releaserWith(wrong, nil)
		f.expectOf(f.requestOverTLS(serverName), handover.Refused, tt.want)
	}
	f.releaser = releaserWith(right, nil)
	f.expectOf(f.requestOverTLS(""), handover.Refused, "doesn't contain any IP SANs")
	f.expectOf(f.requestOverTLS("other"), handover.Refused, "certificate is valid for redis.shop.svc, not other")
	f.expectOf(f.requestOverTLS(serverName), handover.HandedOver, "redis-1 leads instead of redis-0")
	f.check(f.Servers[1].WaitRole(f.ctx, "master"))
}

// requestOverTLS asks for the release of the leader.
func (f *fixture) requestOverTLS(name string) workload.Request {
	r := f.Request(f.Servers[0])
	for _, annotations := range []map[string]string{r.Pod.Annotations, r.Peers[0].Annotations} {
		annotations[workload.PortAnnotation], annotations[workload.ServerNameAnnotation] = tlsPort, name
	}
	return r
}

// secure has the servers listen with TLS on another port, and replicate there.
func (f *fixture) secure(a *authority) {
	f.t.Helper()
	dir, own := f.t.TempDir(), a.issue(serverName)
	set := []string{"CONFIG", "SET", "tls-port", tlsPort, "tls-replication", "yes"}
	for name, content := range map[string][]byte{
		"tls-ca-cert-file": a.certificate, "tls-cert-file": own.certificate, "tls-key-file": own.key,
	} {
		path := filepath.Join(dir, name)
		f.check(os.WriteFile(path, content, 0o600))
		set = append(set, name, path)
	}
	for i, s := range f.Servers {
		_, err := s.Do(f.ctx, set...)
		f.check(err)
		if i > 0 {
			_, err = s.Do(f.ctx, "REPLICAOF", f.Servers[0].IP(), tlsPort)
			f.check(err)
		}
	}
	ctx, cancel := context.WithTimeout(f.ctx, 10*time.Second)
	defer cancel()
	f.check(f.WaitInSync(ctx))
}

// authority issues certificates.
type authority struct {
	keyPair
	t      *testing.T
	issuer *x509.Certificate // nil for its own
	signer *ecdsa.PrivateKey
}

// keyPair is a certificate and its key as PEM.
type keyPair struct{ certificate, key []byte }

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	own, signer := a.sign(&x509.Certificate{DNSNames: []string{"authority"}, IsCA: true, BasicConstraintsValid: true})
	block, _ := pem.Decode(own.certificate)
	issuer, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	a.keyPair, a.issuer, a.signer = own, issuer, signer
	return a
}

// issue returns a certificate for a name, for servers and clients.
func (a *authority) issue(name string) keyPair {
	issued, _ := a.sign(&x509.Certificate{DNSNames: []string{name}})
	return issued
}

func (a *authority) sign(template *x509.Certificate) (keyPair, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
	template.Subject.CommonName = strings.Join(template.DNSNames, "")
	issuer, signer := a.issuer, a.signer
	if issuer == nil {
		issuer, signer = template, key
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return keyPair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}, key
}
