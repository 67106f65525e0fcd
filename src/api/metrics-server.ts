import { createServer, type Server } from 'node:http'
import { foreignHost } from './own-host.ts'
import type { MetricsPlace } from '../shared/own-hosts.ts'
import type { Metrics } from '../shared/metrics.ts'

/**
 * Serves `GET /metrics` on a separate port. No key is needed, so keep this port inside your network. A page in a browser
 * of this network must not read it either, so the host of a request is checked as on the port of the API.
 */
export function serveMetrics(metrics: Metrics, { host, port, names }: MetricsPlace): Promise<Server> {
  const own = new Set(names)
  const server = createServer((request, response) => {
    if (foreignHost(own, request) !== null) {
      response.writeHead(421).end('name this host in ALLOWED_HOSTS\n')
      return
    }
    if (request.method !== 'GET' || request.url?.split('?', 1)[0] !== '/metrics') {
      response.writeHead(404).end()
      return
    }
    metrics.text().then(
      (text) =>
        response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(text),
      () => response.writeHead(500).end(),
    )
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => resolve(server))
  })
}
