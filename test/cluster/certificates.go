package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// The files of writeCertificates in the folder of a control plane.
const (
	authorityFile   = "ca.crt"
	certificateFile = "admin.crt"
	keyFile         = "admin.key"
)

// writeCertificates writes a new certificate authority, and a certificate of it with its key: for the servers of the
// control plane, for its administrator, and for the tokens of ServiceAccounts.
func writeCertificates(authorityPath, certificatePath, keyPath string, ips []net.IP) error {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "node-drainer-test"}, authorityKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	admin, err := sign(authority, authorityKey, key.Public(), ips)
	if err != nil {
		return err
	}
	authorityPEM, err := cert.EncodeCertificates(authority)
	if err != nil {
		return err
	}
	adminPEM, err := cert.EncodeCertificates(admin)
	if err != nil {
		return err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return errors.Join(
		cert.WriteCert(authorityPath, authorityPEM),
		cert.WriteCert(certificatePath, adminPEM),
		keyutil.WriteKey(keyPath, keyPEM))
}

// sign returns a certificate of the public key, signed by the authority.
func sign(
	authority *x509.Certificate, authorityKey crypto.Signer, public crypto.PublicKey, ips []net.IP,
) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		DNSNames:     []string{"localhost"},
		IPAddresses:  ips,
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, authority, public, authorityKey)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
