package main

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// claimAllocation is what Reserve would have written into a claim.
type claimAllocation struct {
	Claim      string                        `json:"claim"`
	Allocation *resourceapi.AllocationResult `json:"allocation"`
}

// recordingManager hears which allocations are pending after Reserve, and forgets them: every node is asked about the
// same state.
type recordingManager struct {
	fwk.SharedDRAManager
	mutex   sync.Mutex
	pending []claimAllocation
}

func (m *recordingManager) ResourceClaims() fwk.ResourceClaimTracker {
	return recordingTracker{m.SharedDRAManager.ResourceClaims(), m}
}

type recordingTracker struct {
	fwk.ResourceClaimTracker
	manager *recordingManager
}

func (t recordingTracker) SignalClaimPendingAllocation(_ types.UID, claim *resourceapi.ResourceClaim) error {
	t.manager.mutex.Lock()
	defer t.manager.mutex.Unlock()
	t.manager.pending = append(t.manager.pending, claimAllocation{claim.Namespace + "/" + claim.Name, claim.Status.Allocation})
	return nil
}

// waitFor waits until the manager has heard of all claims and slices: it does so after the informers.
func (m *recordingManager) waitFor(objs []runtime.Object) error {
	claims, slices := 0, 0
	devices, shares := map[string]bool{}, map[string]bool{}
	for _, o := range objs {
		switch o := o.(type) {
		case *resourceapi.ResourceSlice:
			slices++
		case *resourceapi.ResourceClaim:
			claims++
			if o.Status.Allocation == nil {
				continue
			}
			for _, r := range o.Status.Allocation.Devices.Results {
				name := r.Driver + "/" + r.Pool + "/" + r.Device
				if r.ShareID != nil {
					shares[name+"/"+string(*r.ShareID)] = true
				} else if r.AdminAccess == nil || !*r.AdminAccess {
					devices[name] = true
				}
			}
		}
	}
	for range 2000 {
		known, err := m.ResourceClaims().List()
		if err != nil {
			return err
		}
		listed, err := m.ResourceSlices().ListWithDeviceTaintRules()
		if err != nil {
			return err
		}
		state, err := m.ResourceClaims().GatherAllocatedState()
		if err == nil && len(known) == claims && len(listed) == slices &&
			len(state.AllocatedDevices) == len(devices) && len(state.AllocatedSharedDeviceIDs) == len(shares) {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("the claims and slices were not all seen in time")
}

// allocations is what Reserve would write for the pod, on every node that the filter did not refuse. It is asked after
// the filter: once something is reserved, the filter takes it for granted.
func (m *recordingManager) allocations(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *v1.Pod, infos []fwk.NodeInfo,
	refused map[string]answer) (map[string][]claimAllocation, error) {
	found := map[string][]claimAllocation{}
	for _, info := range infos {
		node := info.Node().Name
		if _, ok := refused[node]; ok {
			continue
		}
		m.pending = []claimAllocation{}
		if s := f.RunReservePluginsReserve(ctx, state, pod, node); !s.IsSuccess() {
			return nil, s.AsError()
		}
		found[node] = m.pending
	}
	return found, nil
}
