// Command pki creates the keys and certificates of a cluster in a directory. For the control plane:
//
//	pki control FOLDER
//
//	ca.crt ca.key                    the cluster's authority
//	apiserver.crt apiserver.key      the certificate of kube-apiserver
//	kubelet-client.crt .key          the client certificate of kube-apiserver for kubelets
//	front-proxy-ca.crt               the authority of the next certificate only
//	front-proxy-client.crt .key      its client certificate for aggregated API servers
//	sa.key sa.pub                    the keys that sign and verify service account tokens
//	admin.kubeconfig                 a member of system:masters
//	controller-manager.kubeconfig    the identities of these three in RBAC's bootstrap policy
//	scheduler.kubeconfig
//	kube-proxy.kubeconfig
//
// For each node:
//
//	pki node FOLDER NAME ADDRESS
//
//	NAME.crt NAME.key                the certificate of its kubelet
//	NAME.kubeconfig                  its kubelet's identity, which the node authorizer knows
//
// All certificates are valid for a year. The control plane reaches itself at 127.0.0.1, and nodes
// reach it at 192.0.2.1 (TEST-NET-1, which exists only inside the cluster's network namespace).
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
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

const (
	serverOnLoopback = "https://127.0.0.1:6443"
	serverFromNodes  = "https://192.0.2.1:6443"
)

func main() {
	log.SetFlags(0)
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "control":
		err = writeControl(folder(args[1]))
	case len(args) == 4 && args[0] == "node":
		err = writeNode(folder(args[1]), args[2], net.ParseIP(args[3]))
	default:
		log.Fatal("usage: pki control FOLDER | pki node FOLDER NAME ADDRESS")
	}
	if err != nil {
		log.Fatalf("pki: %v", err)
	}
}

func writeControl(dir folder) error {
	ca, err := newAuthority("tenon-cluster")
	if err != nil {
		return err
	}
	if err := dir.writePair("ca", ca); err != nil {
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
	if err := dir.writePair("apiserver", apiserver); err != nil {
		return err
	}
	kubeletClient, err := ca.issueClient(pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}})
	if err != nil {
		return err
	}
	if err := dir.writePair("kubelet-client", kubeletClient); err != nil {
		return err
	}

	frontProxy, err := newAuthority("tenon-cluster-front-proxy")
	if err != nil {
		return err
	}
	if err := dir.write("front-proxy-ca.crt", certificatePEM(frontProxy.certificate.Raw)); err != nil {
		return err
	}
	frontProxyClient, err := frontProxy.issueClient(pkix.Name{CommonName: "front-proxy-client"})
	if err != nil {
		return err
	}
	if err := dir.writePair("front-proxy-client", frontProxyClient); err != nil {
		return err
	}

	for _, member := range []struct {
		name, server string
		subject      pkix.Name
	}{
		{"admin", serverOnLoopback, pkix.Name{CommonName: "kubernetes-admin", Organization: []string{"system:masters"}}},
		{"controller-manager", serverOnLoopback, pkix.Name{CommonName: "system:kube-controller-manager"}},
		{"scheduler", serverOnLoopback, pkix.Name{CommonName: "system:kube-scheduler"}},
		{"kube-proxy", serverFromNodes, pkix.Name{CommonName: "system:kube-proxy"}},
	} {
		client, err := ca.issueClient(member.subject)
		if err != nil {
			return err
		}
		if err := dir.writeKubeconfig(member.name, member.server, ca, client); err != nil {
			return err
		}
	}

	// The key is an RSA key, because service account tokens are signed with RS256 by default.
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

func writeNode(dir folder, name string, address net.IP) error {
	if address == nil {
		return fmt.Errorf("the address of %s is not an IP address", name)
	}
	ca, err := dir.readPair("ca")
	if err != nil {
		return err
	}
	kubelet, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{name},
		IPAddresses: []net.IP{address},
	})
	if err != nil {
		return err
	}
	if err := dir.writePair(name, kubelet); err != nil {
		return err
	}
	client, err := ca.issueClient(pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}})
	if err != nil {
		return err
	}
	return dir.writeKubeconfig(name, serverFromNodes, ca, client)
}

// An identity is a certificate and its key.
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

func (ca identity) issueClient(subject pkix.Name) (identity, error) {
	return ca.issue(&x509.Certificate{Subject: subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// sign completes the template and signs it with issuer, or with its own key if issuer is nil.
func sign(template *x509.Certificate, issuer *identity) (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return identity{}, err
	}
	// The certificate is valid from one minute ago, so that a clock step does not invalidate a new
	// certificate.
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

// A folder contains files that only the owner may read.
type folder string

func (dir folder) write(name string, content []byte) error {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(string(dir), name), content, 0o600)
}

func (dir folder) writePair(name string, pair identity) error {
	if err := dir.write(name+".crt", certificatePEM(pair.certificate.Raw)); err != nil {
		return err
	}
	return dir.write(name+".key", keyPEM(pair.key))
}

func (dir folder) readPair(name string) (identity, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(string(dir), name+".crt"), filepath.Join(string(dir), name+".key"))
	if err != nil {
		return identity{}, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return identity{}, fmt.Errorf("%s.key cannot sign", name)
	}
	return identity{pair.Leaf, key}, nil
}

func (dir folder) writeKubeconfig(name, server string, ca, client identity) error {
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
		panic(err) // Fails only for key types that this program does not create.
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
