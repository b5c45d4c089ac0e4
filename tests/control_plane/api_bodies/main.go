// Prints two lines a built-in kind: an object without fields and one with every field set, as JSON and as protobuf.
//
// It is what k8s.io/apimachinery writes, and what tests compare the embedded API server's reader with:
// `make api-fields` writes it to tests/sim_http. The arguments are the kinds (apps/v1/Deployment).
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

var moment = time.Date(2026, 1, 2, 3, 4, 5, 678000, time.UTC)

type line struct {
	Kind     string          `json:"kind"`
	JSON     json.RawMessage `json:"json"`
	Protobuf string          `json:"protobuf"`
}

func main() {
	wanted := map[string]bool{}
	for _, kind := range os.Args[1:] {
		wanted[kind] = true
	}
	kinds := []schema.GroupVersionKind{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		if wanted[kind.GroupVersion().String()+"/"+kind.Kind] {
			kinds = append(kinds, kind)
		}
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	for _, kind := range kinds {
		write(kind)
	}
}

func write(kind schema.GroupVersionKind) {
	object, err := scheme.Scheme.New(kind)
	check(err)
	writeObject(kind, object)
	fill(reflect.ValueOf(object).Elem())
	writeObject(kind, object)
}

func writeObject(kind schema.GroupVersionKind, object runtime.Object) {
	object.GetObjectKind().SetGroupVersionKind(kind)
	var encoded bytes.Buffer
	check(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &encoded))
	asJSON, err := json.Marshal(object)
	check(err)
	text, err := json.Marshal(line{kind.GroupVersion().String() + "/" + kind.Kind, asJSON, base64.StdEncoding.EncodeToString(encoded.Bytes())})
	check(err)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func fill(value reflect.Value) {
	switch target := value.Addr().Interface().(type) {
	case *metav1.Time:
		*target = metav1.NewTime(moment.Truncate(time.Second))
		return
	case *metav1.MicroTime:
		*target = metav1.NewMicroTime(moment)
		return
	case *metav1.FieldsV1:
		target.Raw = []byte(`{"f:metadata":{}}`)
		return
	case *runtime.RawExtension:
		target.Raw = []byte(`{"any":["thing"]}`)
		return
	case *resource.Quantity:
		*target = resource.MustParse("1500m")
		_ = target.String()
		return
	case *intstr.IntOrString:
		*target = intstr.FromString("25%")
		return
	case *metav1.TypeMeta:
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem())
	case reflect.Struct:
		for i := range value.NumField() {
			fill(value.Field(i))
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte{0, 1, 254, 255})
		} else {
			value.Set(reflect.MakeSlice(value.Type(), 2, 2))
			fill(value.Index(0))
			fill(value.Index(1))
		}
	case reflect.Map:
		key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
		key.SetString("key")
		fill(item)
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(key, item)
	case reflect.String:
		value.SetString("text ä")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64:
		value.SetInt(-7)
	default:
		panic(value.Kind().String())
	}
}
