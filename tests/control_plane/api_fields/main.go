// Prints the fields of the built-in kinds as JSON: for each message, by protobuf number, the field's name and type.
//
// It is read from the Go types of k8s.io/api by reflection, which have both the JSON name and the protobuf number of
// each field. `make api-fields` writes it to the embedded API server, which reads protobuf bodies with it and answers
// `kubectl explain`.
//
// A type is a scalar ("string", "int32", "Quantity", ...), "#Message", "[]type" or "{}type" for a map with texts as
// keys. A field without a name is inline: its fields are those of the message around it. A type that ends in "?" is
// left out of JSON when it is empty.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

var groupVersions = map[string]bool{
	"v1": true, "apps/v1": true, "batch/v1": true, "policy/v1": true, "autoscaling/v1": true,
	"storage.k8s.io/v1": true, "scheduling.k8s.io/v1": true, "coordination.k8s.io/v1": true, "events.k8s.io/v1": true,
	"networking.k8s.io/v1": true, "discovery.k8s.io/v1": true, "rbac.authorization.k8s.io/v1": true,
	"authentication.k8s.io/v1": true, "authorization.k8s.io/v1": true,
}

var scalars = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "Time",
	reflect.TypeFor[metav1.MicroTime]():     "MicroTime",
	reflect.TypeFor[metav1.Duration]():      "Duration",
	reflect.TypeFor[metav1.FieldsV1]():      "Raw",
	reflect.TypeFor[runtime.RawExtension](): "Raw",
	reflect.TypeFor[resource.Quantity]():    "Quantity",
	reflect.TypeFor[intstr.IntOrString]():   "IntOrString",
}

type table struct {
	Kinds    map[string]string               `json:"kinds"`
	Messages map[string]map[string][2]string `json:"messages"`
}

func main() {
	found := table{Kinds: map[string]string{}, Messages: map[string]map[string][2]string{}}
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		_, isObject := reflect.PointerTo(goType).MethodByName("GetUID")
		if !groupVersions[kind.GroupVersion().String()] || !(isObject || kind.Kind == "DeleteOptions") {
			continue
		}
		if kind.Kind == "DeleteOptions" && kind.Group != "" {
			continue // the same in each group
		}
		found.Kinds[kind.GroupVersion().String()+"/"+kind.Kind] = found.add(goType)
	}
	found.write()
}

func (found *table) add(goType reflect.Type) string {
	path := strings.Split(goType.PkgPath(), "/")
	name := strings.Join(append(path[len(path)-2:], goType.Name()), ".")
	if _, known := found.Messages[name]; known {
		return name
	}
	fields := map[string][2]string{}
	found.Messages[name] = fields
	if goType.Kind() == reflect.Slice { // a list that is a message of its own
		fields["1"] = [2]string{"", found.typeOf(goType.Elem(), "[]")}
		return name
	}
	for i := range goType.NumField() {
		field := goType.Field(i)
		numbered := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(numbered) < 2 {
			continue // kind and apiVersion, which are beside the message
		}
		tag := field.Tag.Get("json")
		jsonName, _, _ := strings.Cut(tag, ",")
		described := found.typeOf(field.Type, "")
		if strings.Contains(tag, "omitempty") && field.Type.Kind() != reflect.Pointer {
			described += "?"
		}
		fields[numbered[1]] = [2]string{jsonName, described}
	}
	return name
}

func (found *table) typeOf(goType reflect.Type, prefix string) string {
	if name, known := scalars[goType]; known {
		return prefix + name
	}
	switch goType.Kind() {
	case reflect.Pointer:
		return found.typeOf(goType.Elem(), prefix)
	case reflect.Struct:
		return prefix + "#" + found.add(goType)
	case reflect.Map:
		return found.typeOf(goType.Elem(), prefix+"{}")
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return prefix + "bytes"
		}
		if strings.HasSuffix(prefix, "{}") {
			return prefix + "#" + found.add(goType)
		}
		return found.typeOf(goType.Elem(), prefix+"[]")
	default:
		return prefix + goType.Kind().String()
	}
}

// One line a message, so that a change of a version can be read.
func (found *table) write() {
	kinds, err := json.Marshal(found.Kinds)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stdout, "{\"kinds\": %s,\n\"messages\": {\n", kinds)
	names := make([]string, 0, len(found.Messages))
	for name := range found.Messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		fields, err := json.Marshal(found.Messages[name])
		if err != nil {
			panic(err)
		}
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Fprintf(os.Stdout, "%q: %s%s\n", name, fields, end)
	}
	fmt.Fprintln(os.Stdout, "}}")
}
