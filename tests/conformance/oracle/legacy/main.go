// Legacy oracle: what the predicates and priorities that only old kube-schedulers had (v1.17 still has most of
// them) say about a case. Same input and output as the current oracle (../current), but "config" is a legacy Policy.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog"
	"k8s.io/kubernetes/pkg/scheduler/algorithm/predicates"
	"k8s.io/kubernetes/pkg/scheduler/algorithm/priorities"
	framework "k8s.io/kubernetes/pkg/scheduler/framework/v1alpha1"
	schedulernodeinfo "k8s.io/kubernetes/pkg/scheduler/nodeinfo"
	"k8s.io/kubernetes/pkg/scheduler/nodeinfo/snapshot"
)

type predicateArgument struct {
	ServiceAffinity *struct{ Labels []string } `json:"serviceAffinity"`
	LabelsPresence  *struct {
		Labels   []string
		Presence bool
	} `json:"labelsPresence"`
}

type priorityArgument struct {
	ServiceAntiAffinity *struct{ Label string } `json:"serviceAntiAffinity"`
	LabelPreference     *struct {
		Label    string
		Presence bool
	} `json:"labelPreference"`
}

type policy struct {
	Predicates []struct {
		Name     string
		Argument *predicateArgument
	}
	Priorities []struct {
		Name     string
		Weight   int64
		Argument *priorityArgument
	}
}

type oracleCase struct {
	ID      string            `json:"id"`
	Config  policy            `json:"config"`
	Objects []json.RawMessage `json:"objects"`
	Pod     json.RawMessage   `json:"pod"`
}

type answer struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons,omitempty"`
}

type verdict struct {
	ID       string                       `json:"id"`
	Error    string                       `json:"error,omitempty"`
	Filter   map[string]map[string]answer `json:"filter,omitempty"`
	Feasible []string                     `json:"feasible"`
	Score    map[string]map[string]int64  `json:"score,omitempty"`
	Weight   map[string]int64             `json:"weight,omitempty"`
	Total    map[string]int64             `json:"total,omitempty"`
	Best     []string                     `json:"best,omitempty"`
}

func main() {
	klog.SetOutput(io.Discard)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	enc := json.NewEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			var c oracleCase
			v := verdict{}
			if e := json.Unmarshal(line, &c); e != nil {
				v.Error = e.Error()
			} else if v, e = judge(c); e != nil {
				v = verdict{ID: c.ID, Error: e.Error()}
			}
			if e := enc.Encode(v); e != nil {
				panic(e)
			}
		}
		if err != nil {
			return
		}
	}
}

func judge(c oracleCase) (verdict, error) {
	v := verdict{ID: c.ID, Feasible: []string{}, Filter: map[string]map[string]answer{}, Score: map[string]map[string]int64{},
		Weight: map[string]int64{}, Total: map[string]int64{}}
	factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	core, apps, storage := factory.Core().V1(), factory.Apps().V1(), factory.Storage().V1()
	var nodes []*v1.Node
	var bound []*v1.Pod
	decoder := clientscheme.Codecs.UniversalDeserializer()
	for _, raw := range c.Objects {
		o, _, err := decoder.Decode(raw, nil, nil)
		if err != nil {
			return v, err
		}
		switch o := o.(type) {
		case *v1.Node:
			nodes = append(nodes, o)
		case *v1.Pod:
			bound = append(bound, o)
		case *v1.Service:
			err = core.Services().Informer().GetIndexer().Add(o)
		case *v1.ReplicationController:
			err = core.ReplicationControllers().Informer().GetIndexer().Add(o)
		case *v1.PersistentVolume:
			err = core.PersistentVolumes().Informer().GetIndexer().Add(o)
		case *v1.PersistentVolumeClaim:
			err = core.PersistentVolumeClaims().Informer().GetIndexer().Add(o)
		case *appsv1.ReplicaSet:
			err = apps.ReplicaSets().Informer().GetIndexer().Add(o)
		case *appsv1.StatefulSet:
			err = apps.StatefulSets().Informer().GetIndexer().Add(o)
		case *storagev1.StorageClass:
			err = storage.StorageClasses().Informer().GetIndexer().Add(o)
		case *storagev1.CSINode:
			err = storage.CSINodes().Informer().GetIndexer().Add(o)
		}
		if err != nil {
			return v, err
		}
	}
	o, _, err := decoder.Decode(c.Pod, nil, nil)
	if err != nil {
		return v, err
	}
	pod := o.(*v1.Pod)
	infos := snapshot.CreateNodeInfoMap(bound, nodes)
	shared := snapshot.NewSnapshot(infos)

	feasible := map[string]bool{}
	for _, n := range nodes {
		feasible[n.Name] = true
	}
	for _, p := range c.Config.Predicates {
		var fit predicates.FitPredicate
		maxVolumes := func(kind string) predicates.FitPredicate {
			return predicates.NewMaxPDVolumeCountPredicate(kind, storage.CSINodes().Lister(), storage.StorageClasses().Lister(),
				core.PersistentVolumes().Lister(), core.PersistentVolumeClaims().Lister())
		}
		switch p.Name {
		case "MaxEBSVolumeCount":
			fit = maxVolumes(predicates.EBSVolumeFilterType)
		case "MaxGCEPDVolumeCount":
			fit = maxVolumes(predicates.GCEPDVolumeFilterType)
		case "MaxAzureDiskVolumeCount":
			fit = maxVolumes(predicates.AzureDiskVolumeFilterType)
		case "MaxCinderVolumeCount":
			fit = maxVolumes(predicates.CinderVolumeFilterType)
		case "PodToleratesNodeNoExecuteTaints":
			fit = predicates.PodToleratesNodeNoExecuteTaints
		case "CheckNodeLabelPresence":
			if a := p.Argument.LabelsPresence; a.Presence {
				fit = predicates.NewNodeLabelPredicate(a.Labels, nil)
			} else {
				fit = predicates.NewNodeLabelPredicate(nil, a.Labels)
			}
		case "CheckServiceAffinity":
			fit, _ = predicates.NewServiceAffinityPredicate(shared.NodeInfos(), shared.Pods(), core.Services().Lister(), p.Argument.ServiceAffinity.Labels)
		default:
			return v, fmt.Errorf("predicate %q is not one that only old schedulers have", p.Name)
		}
		v.Filter[p.Name] = map[string]answer{}
		for _, n := range nodes {
			ok, reasons, err := fit(pod, nil, infos[n.Name])
			if err != nil {
				return v, err
			}
			if !ok {
				feasible[n.Name] = false
				a := answer{Code: "Unschedulable"}
				for _, r := range reasons {
					a.Reasons = append(a.Reasons, r.GetReason())
				}
				v.Filter[p.Name][n.Name] = a
			}
		}
	}

	var left []*v1.Node
	for _, n := range nodes {
		if feasible[n.Name] {
			left = append(left, n)
			v.Feasible = append(v.Feasible, n.Name)
			v.Total[n.Name] = 0
		}
	}
	sort.Strings(v.Feasible)
	if len(left) == 0 {
		return v, nil
	}
	meta := priorities.NewMetadataFactory(core.Services().Lister(), core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(),
		apps.StatefulSets().Lister(), 1)(pod, left, shared)
	for _, p := range c.Config.Priorities {
		var each priorities.PriorityMapFunction
		var reduce priorities.PriorityReduceFunction
		switch p.Name {
		case "SelectorSpreadPriority":
			each, reduce = priorities.NewSelectorSpreadPriority(core.Services().Lister(), core.ReplicationControllers().Lister(),
				apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
		case "NodePreferAvoidPodsPriority":
			each = priorities.CalculateNodePreferAvoidPodsPriorityMap
		case "ResourceLimitsPriority":
			each = priorities.ResourceLimitsPriorityMap
		case "EqualPriority":
			each = func(_ *v1.Pod, _ interface{}, n *schedulernodeinfo.NodeInfo) (framework.NodeScore, error) {
				return framework.NodeScore{Name: n.Node().Name, Score: 1}, nil
			}
		default:
			if p.Argument != nil && p.Argument.ServiceAntiAffinity != nil {
				each, reduce = priorities.NewServiceAntiAffinityPriority(shared.Pods(), core.Services().Lister(), []string{p.Argument.ServiceAntiAffinity.Label})
			} else if p.Argument != nil && p.Argument.LabelPreference != nil {
				if a := p.Argument.LabelPreference; a.Presence {
					each, reduce = priorities.NewNodeLabelPriority([]string{a.Label}, nil)
				} else {
					each, reduce = priorities.NewNodeLabelPriority(nil, []string{a.Label})
				}
			} else {
				return v, fmt.Errorf("priority %q is not one that only old schedulers have", p.Name)
			}
		}
		var list framework.NodeScoreList
		for _, n := range left {
			s, err := each(pod, meta, infos[n.Name])
			if err != nil {
				return v, err
			}
			list = append(list, s)
		}
		if reduce != nil {
			if err := reduce(pod, meta, shared, list); err != nil {
				return v, err
			}
		}
		v.Weight[p.Name], v.Score[p.Name] = p.Weight, map[string]int64{}
		for _, s := range list {
			v.Score[p.Name][s.Name] = s.Score
			v.Total[s.Name] += s.Score * p.Weight
		}
	}
	best := int64(-1)
	for _, name := range v.Feasible {
		if v.Total[name] > best {
			best, v.Best = v.Total[name], nil
		}
		if v.Total[name] == best {
			v.Best = append(v.Best, name)
		}
	}
	return v, nil
}
