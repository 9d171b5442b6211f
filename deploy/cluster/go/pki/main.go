// Command pki writes what a control plane needs to trust itself into a folder, once:
//
//	ca.crt ca.key                    the cluster's authority
//	apiserver.crt apiserver.key      what kube-apiserver shows
//	sa.key sa.pub                    service account tokens are signed with the one and verified with the other
//	admin.kubeconfig                 a member of system:masters
//	controller-manager.kubeconfig    the identity that RBAC's bootstrap policy expects of it
//
// Everything is valid for a year and for 127.0.0.1 and 192.0.2.1 (TEST-NET-1, which exists only inside the cluster's
// network namespace).
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const server = "https://127.0.0.1:6443"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: pki FOLDER")
	}
	if err := write(folder(os.Args[1])); err != nil {
		log.Fatalf("pki: %v", err)
	}
}

func write(dir folder) error {
	ca, err := newAuthority("tenon-cluster")
	if err != nil {
		return err
	}
	if err := dir.writePair("ca", ca.certificate.Raw, ca.key); err != nil {
		return err
	}

	apiserver, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(192, 0, 2, 1), net.IPv4(10, 96, 0, 1)},
	})
	if err != nil {
		return err
	}
	if err := dir.writePair("apiserver", apiserver.certificate.Raw, apiserver.key); err != nil {
		return err
	}

	for name, subject := range map[string]pkix.Name{
		"admin":              {CommonName: "kubernetes-admin", Organization: []string{"system:masters"}},
		"controller-manager": {CommonName: "system:kube-controller-manager"},
	} {
		client, err := ca.issue(&x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if err != nil {
			return err
		}
		if err := dir.writeKubeconfig(name, ca, client); err != nil {
			return err
		}
	}

	// RSA, because the issuer of service account tokens signs with RS256 by default.
	signing, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(signing.Public())
	if err != nil {
		return err
	}
	if err := dir.write("sa.key", keyPEM(signing)); err != nil {
		return err
	}
	return dir.write("sa.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
}

// An identity is a certificate and the key it speaks for.
type identity struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func newAuthority(name string) (identity, error) {
	return sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
}

func (ca identity) issue(template *x509.Certificate) (identity, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return sign(template, &ca)
}

// sign completes the template and has it signed by issuer, or by itself where there is none.
func sign(template *x509.Certificate, issuer *identity) (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return identity{}, err
	}
	// A minute back: clocks that step must not make a fresh certificate invalid.
	template.NotBefore = time.Now().Add(-time.Minute)
	template.NotAfter = template.NotBefore.AddDate(1, 0, 0)
	if issuer == nil {
		issuer = &identity{certificate: template, key: key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.certificate, key.Public(), issuer.key)
	if err != nil {
		return identity{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	return identity{certificate, key}, err
}

// A folder receives files that only its owner may read.
type folder string

func (dir folder) write(name string, content []byte) error {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(string(dir), name), content, 0o600)
}

func (dir folder) writePair(name string, der []byte, key crypto.Signer) error {
	if err := dir.write(name+".crt", certificatePEM(der)); err != nil {
		return err
	}
	return dir.write(name+".key", keyPEM(key))
}

func (dir folder) writeKubeconfig(name string, ca, client identity) error {
	base64 := base64.StdEncoding.EncodeToString
	return dir.write(name+".kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: tenon
clusters:
- name: tenon
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %[3]s
  user:
    client-certificate-data: %[4]s
    client-key-data: %[5]s
contexts:
- name: tenon
  context: {cluster: tenon, user: %[3]s}
`, server, base64(certificatePEM(ca.certificate.Raw)), name,
		base64(certificatePEM(client.certificate.Raw)), base64(keyPEM(client.key))))
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key crypto.Signer) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // only for kinds of keys that are not made here
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
