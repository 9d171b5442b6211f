// Command image creates a container image of one binary, as an OCI archive:
//
//	image ARCHIVE REFERENCE BINARY
//
// The binary is in the image's /usr/bin and is its entrypoint. The image has /tmp as a mount point.
// The same binary yields the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
)

const mediaType = "application/vnd.oci.image."

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: image ARCHIVE REFERENCE BINARY")
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatalf("image: %v", err)
	}
}

func write(archive, reference, binary string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	entrypoint := "/usr/bin/" + filepath.Base(binary)
	layer, err := pack([]entry{
		{tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil},
		{tar.Header{Name: entrypoint[1:], Mode: 0o755}, content},
	})
	if err != nil {
		return err
	}

	var blobs []entry
	put := func(kind string, content []byte) descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		blobs = append(blobs, entry{tar.Header{Name: "blobs/sha256/" + sum, Mode: 0o644}, content})
		return descriptor{MediaType: mediaType + kind, Digest: "sha256:" + sum, Size: len(content)}
	}
	layerBlob := put("layer.v1.tar", layer)
	config := put("config.v1+json", encode(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{entrypoint}, "User": "65532:65532", "WorkingDir": "/"},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	}))
	manifest := put("manifest.v1+json", encode(map[string]any{
		"schemaVersion": 2,
		"mediaType":     mediaType + "manifest.v1+json",
		"config":        config,
		"layers":        []descriptor{layerBlob},
	}))
	// containerd takes the name of an imported image from the first annotation, and other tools
	// from the second.
	manifest.Annotations = map[string]string{
		"io.containerd.image.name":          reference,
		"org.opencontainers.image.ref.name": reference,
	}
	packed, err := pack(append(blobs,
		entry{tar.Header{Name: "oci-layout", Mode: 0o644}, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		entry{tar.Header{Name: "index.json", Mode: 0o644}, encode(map[string]any{
			"schemaVersion": 2,
			"manifests":     []descriptor{manifest},
		})},
	))
	if err != nil {
		return err
	}
	return os.WriteFile(archive, packed, 0o644)
}

// A descriptor describes a blob, as in the OCI image specification.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type entry struct {
	header  tar.Header
	content []byte
}

func pack(entries []entry) ([]byte, error) {
	var packed bytes.Buffer
	writer := tar.NewWriter(&packed)
	for _, entry := range entries {
		entry.header.Size = int64(len(entry.content))
		if err := writer.WriteHeader(&entry.header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(entry.content); err != nil {
			return nil, err
		}
	}
	err := writer.Close()
	return packed.Bytes(), err
}

func encode(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // Fails only for values that JSON cannot represent.
	}
	return encoded
}
