package tests

import "testing"

func TestSmoke(t *testing.T) {
	for _, o := range render(t, ``) {
		t.Log(o.template, o.String())
	}
}
