"""The API server over HTTP: the way of a request.

server             connections, the token, faults, and the order of all that follows
routes             path and method: a resource, a namespace, a name, a subresource, a verb
negotiation        the form of the response (JSON, Table, metadata only), and of the request's body
protobuf           bodies in protobuf, as kubectl sends them
field_validation   unknown fields: refuse, warn or ignore
operations         the verbs on the store
scale              the scale subresource
streaming          watches
encoding           objects as bytes, each version once
printers/          tables for `kubectl get`
responses          JSON, refusals, cut connections
discovery          groups, versions and kinds
openapi            the schemas that kubectl reads
aggregation        requests that are passed on to aggregated APIs, with the credentials of front_proxy,
                   made by certificates
reviews            whose token it is, who asks, what they may do
tokens             tokens of ServiceAccounts
"""

from berth.sim.server.server import SimServer

__all__ = ["SimServer"]
