// Writes the cases of upstream's own table of selectors, and what upstream says of them with the feature gates that are
// on by default: one JSON object on a line. It is built inside a copy of k8s.io/dynamic-resource-allocation.
package cel

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
)

func TestBerthTable(t *testing.T) {
	file, err := os.Create(os.Getenv("BERTH_TABLE"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := json.NewEncoder(file)
	for name, c := range testcases {
		device := resourceapi.Device{
			Name: "device", Attributes: c.attributes, Capacity: c.capacity, AllowMultipleAllocations: c.allowMultipleAllocations,
		}
		line := map[string]any{
			"name": name, "expression": c.expression, "driver": c.driver, "device": device,
			"listAttributes":   c.enableListTypeAttributes != nil && *c.enableListTypeAttributes,
			"withoutCapacity":  c.envType != nil && *c.envType == environment.NewExpressions && !c.enableConsumableCapacity,
			"wantCompileError": c.expectCompileError, "wantMatchError": c.expectMatchError, "wantMatch": c.expectMatch,
		}
		for key, value := range answer(c.expression, c.driver, device) {
			line[key] = value
		}
		if err := out.Encode(line); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBerthAnswers reads expressions with devices, one JSON object on a line, and writes what upstream says of them.
func TestBerthAnswers(t *testing.T) {
	in, err := os.Open(os.Getenv("BERTH_QUESTIONS"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	file, err := os.Create(os.Getenv("BERTH_TABLE"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	questions, out := json.NewDecoder(in), json.NewEncoder(file)
	for questions.More() {
		var question struct {
			Expression, Driver string
			Device             resourceapi.Device
		}
		if err := questions.Decode(&question); err != nil {
			t.Fatal(err)
		}
		if err := out.Encode(answer(question.Expression, question.Driver, question.Device)); err != nil {
			t.Fatal(err)
		}
	}
}

func answer(expression, driver string, device resourceapi.Device) map[string]any {
	compiled := GetCompiler(Features{EnableConsumableCapacity: true}).CompileCELExpression(expression, Options{})
	if compiled.Error != nil {
		return map[string]any{"compileError": compiled.Error.Error()}
	}
	match, _, err := compiled.DeviceMatches(context.Background(), Device{
		Driver: driver, AllowMultipleAllocations: device.AllowMultipleAllocations, Attributes: device.Attributes, Capacity: device.Capacity,
	})
	if err != nil {
		return map[string]any{"matchError": err.Error()}
	}
	return map[string]any{"match": match}
}
