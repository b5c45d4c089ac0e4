// Oracle: what the real kube-scheduler plugins say about a case.
//
// It reads one JSON case per line on standard input and writes one JSON verdict per line on standard output, in the
// same order. A case is a cluster (lists of API objects by resource), one pod to place, and a
// KubeSchedulerConfiguration; a verdict is what every filter and score plugin of that configuration answers for every
// node, alone, then the whole profile's answer, and, where no node fits, what preemption would do.
// With -nominated the pending pods of a case that are nominated to a node count, as those in a running kube-scheduler's
// queue do; without it they count for nothing. tests/conformance/README.md has the format.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sort"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

type oracleCase struct {
	ID      string            `json:"id"`
	Config  json.RawMessage   `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Pod     json.RawMessage   `json:"pod"`
}

type answer struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
}

type preFilterAnswer struct {
	answer
	Nodes []string `json:"nodes,omitempty"` // the only nodes the plugin leaves to look at, where it narrows them
}

type candidateAnswer struct {
	Victims       []string `json:"victims"`
	PDBViolations int64    `json:"pdbViolations"`
}

type preemptionAnswer struct {
	Candidates map[string]candidateAnswer `json:"candidates"`
	Selected   []string                   `json:"selected"` // every node that the tie-break was seen to pick
}

type verdict struct {
	ID         string                       `json:"id"`
	Error      string                       `json:"error,omitempty"`
	PreFilter  map[string]preFilterAnswer   `json:"preFilter,omitempty"` // plugins whose preFilter did not simply succeed
	Filter     map[string]map[string]answer `json:"filter,omitempty"`    // plugin -> node -> why not; nodes that pass are left out
	Feasible   []string                     `json:"feasible"`
	Score      map[string]map[string]int64  `json:"score,omitempty"` // plugin -> node -> 0..100, normalised, before the weight
	Weight     map[string]int64             `json:"weight,omitempty"`
	Total      map[string]int64             `json:"total,omitempty"`
	Best       []string                     `json:"best,omitempty"`
	Preemption *preemptionAnswer            `json:"preemption,omitempty"`
	// What Reserve would write into the pod's claims, on every node that DynamicResources lets pass.
	Allocations map[string][]claimAllocation `json:"allocations,omitempty"`
}

// nominator has the pods that are nominated to each node.
type nominator struct {
	fwk.PodNominator
	byNode map[string][]fwk.PodInfo
}

func (n nominator) NominatedPodsForNode(node string) []fwk.PodInfo { return n.byNode[node] }

func main() {
	countNominated := flag.Bool("nominated", false, "count pods that are nominated to a node")
	flag.Parse()
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	metrics.Register()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()

	const width = 16
	type slot struct{ done chan verdict }
	slots := make(chan slot, width)
	var writer sync.WaitGroup
	writer.Add(1)
	go func() {
		defer writer.Done()
		enc := json.NewEncoder(out)
		for s := range slots {
			if err := enc.Encode(<-s.done); err != nil {
				panic(err)
			}
		}
	}()
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			s := slot{make(chan verdict, 1)}
			slots <- s
			go func() {
				var c oracleCase
				if err := json.Unmarshal(line, &c); err != nil {
					s.done <- verdict{Error: err.Error()}
					return
				}
				v, err := judge(c, *countNominated)
				if err != nil {
					v = verdict{ID: c.ID, Error: err.Error()}
				}
				s.done <- v
			}()
		}
		if err != nil {
			break
		}
	}
	close(slots)
	writer.Wait()
}

func judge(c oracleCase, countNominated bool) (v verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	v.ID = c.ID

	var objs []runtime.Object
	var nodes []*v1.Node
	var bound []*v1.Pod
	nominated := map[string][]fwk.PodInfo{}
	var pdbs []*policyv1.PodDisruptionBudget
	decoder := clientscheme.Codecs.UniversalDeserializer()
	for _, raw := range c.Objects {
		o, _, err := decoder.Decode(raw, nil, nil)
		if err != nil {
			return v, err
		}
		objs = append(objs, o)
		switch o := o.(type) {
		case *v1.Node:
			nodes = append(nodes, o)
		case *v1.Pod:
			if o.Spec.NodeName != "" {
				bound = append(bound, o)
			} else if node := o.Status.NominatedNodeName; countNominated && node != "" {
				info, err := framework.NewPodInfo(o)
				if err != nil {
					return v, err
				}
				nominated[node] = append(nominated[node], info)
			}
		case *policyv1.PodDisruptionBudget:
			pdbs = append(pdbs, o)
		}
	}
	o, _, err := decoder.Decode(c.Pod, nil, nil)
	if err != nil {
		return v, err
	}
	pod := o.(*v1.Pod)
	objs = append(objs, pod)

	cfgObj, _, err := configscheme.Codecs.UniversalDecoder().Decode(c.Config, nil, nil)
	if err != nil {
		return v, err
	}
	profile := cfgObj.(*config.KubeSchedulerConfiguration).Profiles[0]

	client := fake.NewClientset(objs...)
	factory := informers.NewSharedInformerFactory(client, 0)
	snapshot := internalcache.NewSnapshot(bound, nodes)
	claims := assumecache.NewAssumeCache(klog.Background(), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices(), KubeClient: client})
	if err != nil {
		return v, err
	}
	manager := &recordingManager{SharedDRAManager: dynamicresources.NewDRAManager(ctx, claims, slices, factory)}
	opts := []frameworkruntime.Option{
		frameworkruntime.WithClientSet(client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithSharedDRAManager(manager),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodNominator(nominator{internalqueue.NewSchedulingQueue(nil, factory), nominated}),
		frameworkruntime.WithPodGroupManager(internalcache.New(ctx, nil, false)),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithPodsInPreBind(frameworkruntime.NewPodsInPreBindMap()),
		frameworkruntime.WithParallelism(1),
	}
	whole, err := newFramework(ctx, &profile, opts)
	if err != nil {
		return v, err
	}
	alone := map[string]framework.Framework{}
	listed := whole.ListPlugins()
	names, preFilters, filters := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range listed.PreFilter.Enabled {
		names[p.Name], preFilters[p.Name] = true, true
	}
	for _, p := range listed.Filter.Enabled {
		names[p.Name], filters[p.Name] = true, true
	}
	for _, p := range listed.Score.Enabled {
		names[p.Name] = true
	}
	for name := range names {
		one := config.KubeSchedulerProfile{SchedulerName: profile.SchedulerName, Plugins: &config.Plugins{
			QueueSort:  config.PluginSet{Enabled: []config.Plugin{{Name: "PrioritySort"}}},
			Bind:       config.PluginSet{Enabled: []config.Plugin{{Name: "DefaultBinder"}}},
			MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: name, Weight: 1}}},
		}}
		for _, pc := range profile.PluginConfig {
			if pc.Name == name {
				one.PluginConfig = append(one.PluginConfig, pc)
			}
		}
		if alone[name], err = newFramework(ctx, &one, opts); err != nil {
			return v, fmt.Errorf("%s: %w", name, err)
		}
	}
	factory.Core().V1().Pods().Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	time.Sleep(50 * time.Millisecond) // the assume caches hear of the objects after the informers do
	if err := manager.waitFor(objs); err != nil {
		return v, err
	}

	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		return v, err
	}

	v.PreFilter, v.Filter = map[string]preFilterAnswer{}, map[string]map[string]answer{}
	for name, f := range alone {
		state := framework.NewCycleState()
		result, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
		pre := preFilterAnswer{answer: say(status)}
		if result != nil && !result.AllNodes() {
			pre.Nodes = result.NodeNames.UnsortedList()
			sort.Strings(pre.Nodes)
		}
		if preFilters[name] && (!status.IsSuccess() || pre.Nodes != nil) {
			v.PreFilter[name] = pre
		}
		if !status.IsSuccess() || !filters[name] {
			continue
		}
		for _, info := range infos {
			if s := f.RunFilterPlugins(ctx, state, pod, info); !s.IsSuccess() {
				if v.Filter[name] == nil {
					v.Filter[name] = map[string]answer{}
				}
				v.Filter[name][info.Node().Name] = say(s)
			}
		}
		if name == dynamicresources.Name {
			if v.Allocations, err = manager.allocations(ctx, f, state, pod, infos, v.Filter[name]); err != nil {
				return v, err
			}
		}
	}

	// The whole profile, with the nominated pods and without, on every node.
	state := framework.NewCycleState()
	v.Feasible = []string{}
	statuses := framework.NewDefaultNodeToStatus()
	result, status, _ := whole.RunPreFilterPlugins(ctx, state, pod)
	var feasible []fwk.NodeInfo
	if status.IsSuccess() {
		for _, info := range infos {
			name := info.Node().Name
			if result != nil && !result.AllNodes() && !result.NodeNames.Has(name) {
				statuses.Set(name, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't satisfy plugin(s)"))
				continue
			}
			if s := whole.RunFilterPluginsWithNominatedPods(ctx, state, pod, info); s.IsSuccess() {
				feasible = append(feasible, info)
				v.Feasible = append(v.Feasible, name)
			} else {
				statuses.Set(name, s)
			}
		}
	} else if status.Code() == fwk.Error {
		return v, status.AsError()
	} else {
		statuses.SetAbsentNodesStatus(status)
	}
	sort.Strings(v.Feasible)

	if len(feasible) == 0 {
		v.Preemption, err = preempt(ctx, whole, &profile, state, pod, pdbs, statuses)
		return v, err
	}

	v.Score, v.Weight, v.Total = map[string]map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, p := range listed.Score.Enabled {
		v.Weight[p.Name] = int64(p.Weight)
		scores, err := scoresOf(ctx, alone[p.Name], pod, feasible)
		if err != nil {
			return v, fmt.Errorf("%s: %w", p.Name, err)
		}
		if scores != nil {
			v.Score[p.Name] = scores
		}
		for _, info := range feasible {
			v.Total[info.Node().Name] += scores[info.Node().Name] * int64(p.Weight)
		}
	}
	// The whole profile must agree with the sum of its parts.
	if s := whole.RunPreScorePlugins(ctx, state, pod, feasible); !s.IsSuccess() {
		return v, s.AsError()
	}
	all, s := whole.RunScorePlugins(ctx, state, pod, feasible)
	if !s.IsSuccess() {
		return v, s.AsError()
	}
	best := int64(-1)
	for _, n := range all {
		if n.TotalScore != v.Total[n.Name] {
			return v, fmt.Errorf("node %s: the whole profile scores %d, the sum of its plugins %d", n.Name, n.TotalScore, v.Total[n.Name])
		}
		if n.TotalScore > best {
			best, v.Best = n.TotalScore, nil
		}
		if n.TotalScore == best {
			v.Best = append(v.Best, n.Name)
		}
	}
	sort.Strings(v.Best)
	return v, nil
}

func newFramework(ctx context.Context, p *config.KubeSchedulerProfile, opts []frameworkruntime.Option) (framework.Framework, error) {
	return frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), p, opts...)
}

func scoresOf(ctx context.Context, f framework.Framework, pod *v1.Pod, feasible []fwk.NodeInfo) (map[string]int64, error) {
	state := framework.NewCycleState()
	if _, s, _ := f.RunPreFilterPlugins(ctx, state, pod); !s.IsSuccess() && s.Code() != fwk.Skip {
		return nil, s.AsError()
	}
	for _, info := range feasible { // the score of DynamicResources is that of what its filter found
		f.RunFilterPlugins(ctx, state, pod, info)
	}
	if s := f.RunPreScorePlugins(ctx, state, pod, feasible); !s.IsSuccess() {
		return nil, s.AsError()
	}
	all, s := f.RunScorePlugins(ctx, state, pod, feasible)
	if !s.IsSuccess() {
		return nil, s.AsError()
	}
	var scores map[string]int64
	for _, n := range all {
		for _, one := range n.Scores {
			if scores == nil {
				scores = map[string]int64{}
			}
			scores[n.Name] = one.Score
		}
	}
	return scores, nil
}

func preempt(ctx context.Context, f framework.Framework, profile *config.KubeSchedulerProfile, state fwk.CycleState, pod *v1.Pod,
	pdbs []*policyv1.PodDisruptionBudget, statuses *framework.NodeToStatus) (*preemptionAnswer, error) {
	args := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 100, MinCandidateNodesAbsolute: 10000}
	pl, err := defaultpreemption.New(ctx, args, f, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
	if err != nil {
		return nil, err
	}
	a := &preemptionAnswer{Candidates: map[string]candidateAnswer{}, Selected: []string{}}
	if ok, _ := pl.PodEligibleToPreemptOthers(ctx, pod, statuses.Get(pod.Status.NominatedNodeName)); !ok {
		return a, nil
	}
	potential, err := statuses.NodesForStatusCode(f.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, err
	}
	if len(potential) == 0 {
		return a, nil
	}
	found, _, err := pl.Evaluator.DryRunPreemption(ctx, state, pod, potential, pdbs, 0, int32(len(potential)))
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		one := candidateAnswer{Victims: []string{}, PDBViolations: c.Victims().NumPDBViolations}
		for _, p := range c.Victims().Pods {
			one.Victims = append(one.Victims, p.Namespace+"/"+p.Name)
		}
		a.Candidates[c.Name()] = one
	}
	seen := map[string]bool{}
	for range 40 {
		if best := pl.Evaluator.SelectCandidate(ctx, found); best != nil {
			seen[best.Name()] = true
		}
	}
	for name := range seen {
		a.Selected = append(a.Selected, name)
	}
	sort.Strings(a.Selected)
	return a, nil
}

func say(s *fwk.Status) answer {
	if s == nil {
		return answer{Code: fwk.Success.String()}
	}
	return answer{Code: s.Code().String(), Reasons: s.Reasons()}
}
