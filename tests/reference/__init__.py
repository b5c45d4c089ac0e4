"""A naive scheduler: plain loops over records, written to be read, that decides as kube-scheduler does.

It shares nothing with the engine but the records of the model, so that what both agree on is not one mistake made
twice.

    world = World.of(bodies)                      the cluster
    profile = profile_of(configuration)           which plugins, with what arguments and weights
    judge(world, profile, pod)                    everything there is to say, in the format of the conformance vectors
"""
