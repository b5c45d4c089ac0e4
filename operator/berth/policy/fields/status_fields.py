"""The status of a SchedulingPolicy."""

from berth.policy.fields.types import ChoiceField, IntegerField, ListField, ObjectField, TextField

MESSAGE_MAX_LENGTH = 32768  # of a condition, as in metav1.Condition


def _count(description: str) -> IntegerField:
    return IntegerField(description, minimum=0)


STATUS = ObjectField(
    "What became of the policy. Written by Berth; editing it has no effect on decisions.",
    fields={
        "observedGeneration": _count("The latest generation that Berth has judged."),
        "activeGeneration": _count(
            "The generation that decides, or judges in the shadow, now: older than observedGeneration after a "
            "bad edit, 0 if nothing of this policy is in force.",
        ),
        "activeHash": TextField(
            "Names what the generation in force means, with everything that it has from its base: equal for "
            "policies that say the same, another one when a change of the base changes this policy.",
            max_length=64,
        ),
        "activeSince": TextField("Since when this generation, in this meaning, is in force.", format="date-time"),
        "placed": _count("Pods that were placed under this policy."),
        "pending": _count("Pods that wait under this policy to be placed."),
        "preempted": _count("Pods that were evicted for pods of this policy."),
        "lastDecisionTime": TextField("When the policy last decided about a pod.", format="date-time"),
        "errors": ListField(
            "What failed under this policy: plugins, extenders and expressions, the latest of them. Condition "
            "Degraded is True for five minutes after the last failure.",
            max_items=64,
            items=ObjectField(
                "One thing that failed.",
                required=("source", "count", "message", "lastTime"),
                fields={
                    "source": TextField(
                        'What failed, for example "extender https://fpga.kube-system:8443", "plugin NodeFoo" or '
                        '"predicate not-retiring".',
                        max_length=1024,
                    ),
                    "count": _count("How often."),
                    "message": TextField("What was wrong the last time.", max_length=4096),
                    "lastTime": TextField("When it last failed.", format="date-time"),
                },
            ),
        ),
        "shadow": ObjectField(
            "In mode Shadow, what the policy would have done with the pods that it matches.",
            fields={
                "judged": _count("Pods that it judged."),
                "same": _count("Those for which it would have chosen the same node, or none as well."),
                "different": _count("Those for which it would have chosen another node."),
                "unplaced": _count("Those that it could not have placed, where the active policy could."),
                "gained": _count("Those that it could have placed, where the active policy could not."),
                "skipped": _count(
                    "Pods of the sample that it did not judge, for want of time or because they were gone by then.",
                ),
                "examples": ListField(
                    "The latest pods that it would have treated differently.",
                    max_items=16,
                    items=ObjectField(
                        "One pod.",
                        required=("pod", "time"),
                        fields={
                            "pod": TextField("Its namespace and name.", max_length=512),
                            "active": TextField("The node that it got, empty for none.", max_length=253),
                            "shadow": TextField(
                                "The node that this policy would have chosen, empty for none.",
                                max_length=253,
                            ),
                            "time": TextField("When.", format="date-time"),
                            "message": TextField("Why there would have been, or was, no node.", max_length=4096),
                        },
                    ),
                ),
            },
        ),
        "conditions": ListField(
            "Ready: is the latest generation valid and in effect (InForce, Shadow, Disabled), or why not (Invalid, "
            "Superseded by other policies). Accepted: is the latest generation valid (Valid), or what is wrong with "
            "it (Invalid). Active: does "
            "the policy decide (InForce, or LastGoodInForce after a bad edit), or why not (Superseded by other "
            "policies, Shadow, Disabled, NeverValid). Contested: may a policy of equal rank match the same pods "
            "(SameRank; the first by name decides) or not (Alone, NoClaim). Degraded: has a plugin, extender or "
            "expression failed in the last five minutes (ExtenderFailing, PluginFailing, ExpressionFailing, "
            "Failing) or not (Healthy).",
            max_items=16,
            keys=("type",),
            items=ObjectField(
                "One aspect of the policy's state.",
                required=("type", "status", "lastTransitionTime", "reason", "message"),
                fields={
                    "type": TextField(
                        "Ready, Accepted, Active, Contested or Degraded.",
                        max_length=316,
                        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    ),
                    "status": ChoiceField("True, False or Unknown.", values=("True", "False", "Unknown")),
                    "observedGeneration": _count("The generation that this is about."),
                    "lastTransitionTime": TextField("When the status last changed.", format="date-time"),
                    "reason": TextField(
                        "Why, in one word for programs.",
                        min_length=1,
                        max_length=1024,
                        pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    ),
                    "message": TextField(
                        "Why; for a refused policy what is wrong, field by field (of the "
                        "arguments of one plugin those that it does not know, and the first of the others that "
                        "it refuses).",
                        max_length=MESSAGE_MAX_LENGTH,
                    ),
                },
            ),
        ),
    },
)
