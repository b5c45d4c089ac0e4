// Writes the cases of upstream's own table of allocations, and what upstream's allocator says of them with the feature
// gates that are on by default: one JSON object on a line. It is built inside a copy of k8s.io/dynamic-resource-allocation.
package incubating

import (
	"context"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// recorder answers as the table's case wants it, and writes what the gates that are on by default make of the case.
type recorder struct {
	*Allocator
	out     *json.Encoder
	state   AllocatedState
	classes DeviceClassLister
	slices  []*resourceapi.ResourceSlice
}

func (r *recorder) Allocate(ctx context.Context, node *v1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	classes, err := r.classes.List()
	if err != nil {
		return nil, err
	}
	line := map[string]any{
		"name": nameOf(ctx), "node": node, "claims": claims, "slices": r.slices, "classes": classes, "allocated": devices(r.state),
	}
	wanted, wantedErr := r.Allocator.Allocate(ctx, node, claims)
	byDefault, err := NewAllocator(ctx, SupportedFeatures, r.state, r.classes, r.slices, cel.NewCache(10, cel.Features{EnableConsumableCapacity: true}))
	if err != nil {
		return nil, err
	}
	results, resultErr := byDefault.Allocate(ctx, node, claims)
	line["results"], line["error"] = results, text(resultErr)
	line["asInTable"] = text(wantedErr) == text(resultErr) && same(wanted, results)
	if err := r.out.Encode(line); err != nil {
		return nil, err
	}
	return wanted, wantedErr
}

func devices(state AllocatedState) []map[string]any {
	found := []map[string]any{}
	add := func(id DeviceID, share string, capacity any) {
		found = append(found, map[string]any{
			"driver": id.Driver.String(), "pool": id.Pool.String(), "device": id.Device.String(), "share": share, "capacity": capacity,
		})
	}
	for id := range state.AllocatedDevices {
		add(id, "", nil)
	}
	for id := range state.AllocatedSharedDeviceIDs {
		add(id.GetDeviceID(), id.ShareID.String(), nil)
	}
	for id, capacity := range state.AggregatedCapacity {
		add(id, "", capacity)
	}
	return found
}

func same(one, other []resourceapi.AllocationResult) bool {
	for _, results := range [][]resourceapi.AllocationResult{one, other} {
		for i := range results {
			for j := range results[i].Devices.Results {
				if results[i].Devices.Results[j].ShareID != nil {
					*results[i].Devices.Results[j].ShareID = "share"
				}
			}
		}
	}
	first, _ := json.Marshal(one)
	second, _ := json.Marshal(other)
	return reflect.DeepEqual(first, second)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func nameOf(ctx context.Context) string {
	if sink, ok := klog.FromContext(ctx).GetSink().(ktesting.Underlier); ok {
		if named, ok := sink.GetUnderlying().(interface{ Name() string }); ok {
			return named.Name()
		}
	}
	return "?"
}

func TestBerthTable(t *testing.T) {
	file, err := os.Create(os.Getenv("BERTH_TABLE"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := json.NewEncoder(file)
	newAllocator := func(ctx context.Context, features Features, state AllocatedState, classes DeviceClassLister, slices []*resourceapi.ResourceSlice,
		cache *cel.Cache) (internal.Allocator, error) {
		allocator, err := NewAllocator(ctx, features, state, classes, slices, cache)
		if err != nil {
			return nil, err
		}
		return &recorder{allocator, out, state, classes, slices}, nil
	}
	allocatortesting.TestAllocator(t, SupportedFeatures, newAllocator)
	allocatortesting.TestLexicographicalAllocator(t, SupportedFeatures, newAllocator)
}
