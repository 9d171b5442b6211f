package tests

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Editors show the descriptions. The comments in values.yaml are their source.
func TestSchemaDescribesEveryValue(t *testing.T) {
	for _, chart := range []string{platform, crds} {
		file := chart + "/values.schema.json"
		var schema yaml.Node
		// JSON is YAML, and this parser keeps the order of fields.
		if err := yaml.Unmarshal([]byte(read(t, file)), &schema); err != nil {
			t.Fatal(file, err)
		}
		root := schema.Content[0]
		for _, value := range documented(t, chart) {
			field := root
			for _, step := range strings.Split(value.path, ".") {
				if ref := property(field, "$ref"); ref != nil {
					field = property(property(root, "$defs"), strings.TrimPrefix(ref.Value, "#/$defs/"))
				}
				if field = property(field, "properties"); field != nil {
					field = property(field, step)
				}
				if field == nil {
					t.Fatalf("%s has no %s", file, value.path)
				}
			}
			describe(field, value.comment)
		}
		golden(t, file, compact(root, "", 0)+"\n")
	}
}

// property returns the field of a map, or nil.
func property(node *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

// describe sets the description of a schema. A new description becomes the first field.
func describe(schema *yaml.Node, text string) {
	if known := property(schema, "description"); known != nil {
		known.Value = text
		return
	}
	scalar := func(value string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value} }
	schema.Content = append([]*yaml.Node{scalar("description"), scalar(text)}, schema.Content...)
}

// compact returns JSON in which whatever fits into 110 columns is on one line. The first line
// begins at the given column.
func compact(node *yaml.Node, indent string, column int) string {
	var parts []string
	inner := indent + "  "
	line := func(at int, node *yaml.Node) string { return compact(node, inner, len(inner)+at) }
	begin, end, space := "[", "]", ""
	switch node.Kind {
	case yaml.MappingNode:
		begin, end, space = "{", "}", " "
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := fmt.Sprintf("%q: ", node.Content[i].Value)
			parts = append(parts, key+line(len(key), node.Content[i+1]))
		}
	case yaml.SequenceNode:
		for _, item := range node.Content {
			parts = append(parts, line(0, item))
		}
	default:
		if node.Tag != "!!str" {
			return node.Value
		}
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(node.Value); err != nil {
			panic(err)
		}
		return strings.TrimSpace(text.String())
	}
	flat := begin + space + strings.Join(parts, ", ") + space + end
	if !strings.Contains(flat, "\n") && column+utf8.RuneCountInString(flat) < 110 {
		return flat
	}
	return begin + "\n" + inner + strings.Join(parts, ",\n"+inner) + "\n" + indent + end
}
