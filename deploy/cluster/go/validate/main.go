// Command validate checks objects as the API server does before it stores them: with Kubernetes'
// own defaults and validation, and with the profile `restricted` of the Pod Security Standards. It
// needs no cluster. Kinds that are not Kubernetes' own are skipped.
//
//	validate < OBJECTS.yaml
//
// The program prints each fault, and fails if there is one.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func main() {
	checked, faults, err := check(os.Stdin)
	for _, fault := range faults {
		fmt.Println(fault)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "validate:", err)
	}
	if err != nil || len(faults) > 0 {
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "validate: %d objects\n", checked)
}

// check returns the number of objects and their faults.
func check(input io.Reader) (checked int, faults []string, err error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return 0, nil, err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(input))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return checked, faults, nil
		}
		if err != nil {
			return checked, faults, err
		}
		// Unlike the API server's decoder, this one sets no defaults, so they are set below.
		object, kind, err := legacyscheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if runtime.IsNotRegisteredError(err) || runtime.IsMissingKind(err) {
			continue
		}
		if err != nil {
			return checked, faults, fmt.Errorf("%w in\n%s", err, document)
		}
		checked++
		legacyscheme.Scheme.Default(object)
		accessor, err := meta.Accessor(object)
		if err != nil {
			return checked, faults, err
		}
		name := kind.Kind + "/" + accessor.GetName()
		found, err := validate(object)
		if err != nil {
			return checked, faults, fmt.Errorf("%s: %w", name, err)
		}
		for _, fault := range found {
			faults = append(faults, name+": "+fault.Error())
		}
		if metadata, spec := podOf(object); spec != nil {
			restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
			for _, result := range evaluator.EvaluatePod(restricted, metadata, spec) {
				if !result.Allowed {
					faults = append(faults, fmt.Sprintf("%s: restricted: %s: %s", name, result.ForbiddenReason, result.ForbiddenDetail))
				}
			}
		}
	}
}

// podOf returns the Pod, or the Pod template, of an object.
func podOf(object runtime.Object) (*metav1.ObjectMeta, *corev1.PodSpec) {
	switch object := object.(type) {
	case *corev1.Pod:
		return &object.ObjectMeta, &object.Spec
	default:
		return templateOf(object)
	}
}
