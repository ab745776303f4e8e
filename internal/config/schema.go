package config

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Schema returns the JSON Schema (draft 2020-12) of a NodeConfig, generated
// from the types of this package, so that editors complete and check it.
func Schema() ([]byte, error) {
	root := schemaOf(reflect.TypeOf(NodeConfig{}), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = Kind
	root["required"] = []string{"apiVersion", "kind", "spec"}
	props := root["properties"].(map[string]any)
	props["apiVersion"].(map[string]any)["const"] = APIVersion
	props["kind"].(map[string]any)["const"] = Kind
	return json.MarshalIndent(root, "", "  ")
}

func schemaOf(t reflect.Type, tag reflect.StructTag) map[string]any {
	s := map[string]any{}
	if doc := tag.Get("doc"); doc != "" {
		s["description"] = doc
	}
	switch {
	case t == durationType:
		s["type"] = []string{"string", "integer"}
		s["examples"] = []string{"10m"}
		return s
	case t.Kind() == reflect.Pointer:
		for k, v := range schemaOf(t.Elem(), tag) {
			s[k] = v
		}
		return s
	}
	switch t.Kind() {
	case reflect.Struct:
		props := map[string]any{}
		for i := range t.NumField() {
			f := t.Field(i)
			props[f.Tag.Get("yaml")] = schemaOf(f.Type, f.Tag)
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", props, false
	case reflect.Slice:
		s["type"], s["items"] = "array", schemaOf(t.Elem(), "")
	case reflect.Map:
		s["type"] = "object"
		if t.Elem().Kind() != reflect.Interface {
			s["additionalProperties"] = schemaOf(t.Elem(), reflect.StructTag(strings.ReplaceAll(string(tag), "doc:", "_:")))
		}
	case reflect.Int:
		s["type"] = "integer"
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.String:
		s["type"] = "string"
		if tag.Get("literal") != "" {
			s["type"] = []string{"string", "number"}
		}
		if enum := tag.Get("enum"); enum != "" {
			s["enum"] = strings.Split(enum, ",")
		}
	}
	return s
}
