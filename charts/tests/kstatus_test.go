package tests

import (
	"encoding/json"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The operator's tests write the states of Workers, RuntimePools and HostGrants to these files,
// each with the status that tools should compute. Flux and Helm 4 compute this status with the
// package kstatus.
func TestToolsComputeTheStateOfEachObject(t *testing.T) {
	for _, file := range []string{"testdata/kstatus-worker.json", "testdata/kstatus-pool.json", "testdata/kstatus-grant.json"} {
		var states []struct {
			State, Expected string
			Object          map[string]any
		}
		if err := json.Unmarshal([]byte(read(t, file)), &states); err != nil {
			t.Fatal(file, err)
		}
		if len(states) < 3 {
			t.Fatalf("%s has too few states: %v", file, states)
		}
		for _, state := range states {
			// UnmarshalJSON decodes integers as int64, as in objects that a client has read.
			text, err := json.Marshal(state.Object)
			if err != nil {
				t.Fatal(err)
			}
			var object unstructured.Unstructured
			if err := object.UnmarshalJSON(text); err != nil {
				t.Fatal(state.State, err)
			}
			computed, err := status.Compute(&object)
			if err != nil || string(computed.Status) != state.Expected {
				t.Errorf("%s: %s is %v, want %s (%v)", file, state.State, computed, state.Expected, err)
			}
		}
	}
}
