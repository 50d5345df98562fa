// An HTTP service that answers each request with its body, over cpp-httplib and nothing else: the measure
// for answers over HTTP. Nothing is read out of a body and nothing is limited.
#pragma once

namespace gpunode::bench {

// At /echo of a free port of loopback, on threads of its own, until the process ends. Gives the port; 0
// where this program was built without cpp-httplib.
int serve_http_echo();

}  // namespace gpunode::bench
