package rest

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// The description is made of the same table and descriptors as what is served. -update, which package testkit defines,
// writes it.

type object = map[string]any

// describing makes schemas of messages.
type describing struct{ schemas object }

// ref is the schema of a message, by its name.
func (d *describing) ref(m protoreflect.MessageDescriptor) object {
	if m.FullName() == "google.protobuf.Timestamp" {
		return object{"type": "string", "format": "date-time"}
	}
	name := string(m.Name())
	if _, there := d.schemas[name]; !there {
		d.schemas[name] = nil // it may hold itself
		d.schemas[name] = d.message(m)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (d *describing) message(m protoreflect.MessageDescriptor) object {
	properties := object{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		properties[f.JSONName()] = d.field(f)
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

func (d *describing) field(f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		return object{"type": "object", "additionalProperties": d.single(f.MapValue())}
	case f.IsList():
		return object{"type": "array", "items": d.single(f)}
	}
	return d.single(f)
}

// single is protobuf's mapping to JSON.
func (d *describing) single(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return d.ref(f.Message())
	case protoreflect.EnumKind:
		var names []string
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return object{"type": "string", "enum": names}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return object{"type": "number"}
	case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return object{"type": "string", "pattern": "^-?[0-9]+$"}
	}
	return object{"type": "integer"}
}

func inJSON(schema any) object { return object{"application/json": object{"schema": schema}} }

func parameter(in, name, summary string, required bool) object {
	return object{"in": in, "name": name, "description": summary, "required": required, "schema": object{"type": "string"}}
}

var inPath = regexp.MustCompile(`\{([a-z_]+)\}`)

// describe makes the description.
func describe(t *testing.T) string {
	t.Helper()
	d := &describing{schemas: object{
		"Failure": object{"type": "object", "required": []string{"code", "message"}, "additionalProperties": false, "properties": object{
			"code": object{"type": "string", "description": "gRPC's code: not_found"}, "message": object{"type": "string"},
			"agentError": object{"$ref": "#/components/schemas/AgentError"}}},
		"LoginAnswer": object{"type": "object", "required": []string{"done"}, "additionalProperties": false, "properties": object{
			"url": object{"type": "string", "format": "uri"}, "message": object{"type": "string"}, "done": object{"type": "boolean"}}},
		"PromptBegun": object{"type": "object", "required": []string{"cursor"}, "additionalProperties": false, "properties": object{
			"cursor": object{"type": "string", "description": "of the turn's first event: send it as Last-Event-ID"}}},
		"LoginCompleted": object{"type": "object", "required": []string{"agentId"}, "additionalProperties": false, "properties": object{
			"agentId": object{"type": "string"}, "methodId": object{"type": "string"}, "error": object{"type": "string"}}},
	}}
	failures := object{"$ref": "#/components/responses/Failure"}
	all, err := plans()
	if err != nil {
		t.Fatal(err)
	}
	paths := object{}
	for _, p := range all {
		operation := object{
			"operationId": strings.ReplaceAll(p.method, ".", "_"), "summary": p.summary,
			"description": "It takes the role " + p.need.Role + ". It stands for acphost.supervisor.v1." + p.method + ".",
		}
		var parameters []object
		request := d.message(p.input.Descriptor())
		for _, name := range inPath.FindAllStringSubmatch(p.path, -1) {
			f := p.input.Descriptor().Fields().ByName(protoreflect.Name(name[1]))
			if f == nil {
				t.Fatalf("%s: %s is no field of the request", p.path, name[1])
			}
			delete(request["properties"].(object), f.JSONName())
			parameters = append(parameters, parameter("path", name[1], "percent-encoded: a slash in it is %2F", true))
		}
		for _, name := range slices.Sorted(maps.Keys(p.query)) {
			parameters = append(parameters, parameter("query", name, "", false))
		}
		if parameters != nil {
			operation["parameters"] = parameters
		}
		if p.verb == "POST" {
			maps.Copy(request["properties"].(object), p.extra)
			operation["requestBody"] = object{"content": inJSON(request)}
		}
		answer := object{"$ref": "#/components/schemas/PromptBegun"}
		switch p.method {
		case "SessionService.Prompt":
		case "AgentService.Authenticate":
			answer = object{"$ref": "#/components/schemas/LoginAnswer"}
		default:
			answer = d.ref(p.output.Descriptor())
		}
		operation["responses"] = object{strconv.Itoa(p.status): object{"description": p.summary, "content": inJSON(answer)}, "default": failures}
		at, there := paths[p.path].(object)
		if !there {
			at = object{}
			paths[p.path] = at
		}
		at[strings.ToLower(p.verb)] = operation
	}
	d.ref((&supervisorv1.Event{}).ProtoReflect().Descriptor())
	paths["/events"] = object{"get": object{
		"operationId": "events", "summary": "Follow what happens",
		"description": "Server-sent events, in a session or everywhere. It takes the role viewer. The data of auth.complete is a LoginCompleted, that of stream.failed, after which the " +
			"stream ends, a Failure; that of all others is an Event without raw.",
		"parameters": []object{
			parameter("query", "session", "only this session, from its beginning or Last-Event-ID on", false),
			parameter("query", "agent", "only this agent, by its id", false),
			parameter("header", "Last-Event-ID", "continue after this event", false),
		},
		"responses": object{"200": object{"description": "the stream", "content": object{"text/event-stream": object{"schema": object{"type": "string", "x-event-names": eventNames()}}}}, "default": failures},
	}}
	paths["/openapi.json"] = object{"get": object{"operationId": "description", "summary": "This description",
		"responses": object{"200": object{"description": "this description", "content": inJSON(object{"type": "object"})}}}}
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "acphost gateway", "version": "1", "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Calls for simple front ends. Fields that have their default value are left out. Every request is authenticated."},
		"security": []object{{"token": []string{}}, {"certificate": []string{}}},
		"paths":    paths,
		"components": object{
			"schemas":         d.schemas,
			"responses":       object{"Failure": object{"description": "It failed: the words say why", "content": inJSON(object{"$ref": "#/components/schemas/Failure"})}},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}, "certificate": object{"type": "mutualTLS"}},
		},
	}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func TestDescription_MatchesRoutes(t *testing.T) {
	want := describe(t)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile("openapi.json", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(description, []byte(want)) {
		t.Error("openapi.json is not what is served; go test ./services/gatewayd/internal/rest -update writes it")
	}
}
