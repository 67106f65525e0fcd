import { once } from 'node:events'
import { get } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from '@jest/globals'
import { serveMetrics } from '../../src/api/metrics-server.ts'
import { createMetrics } from '../../src/shared/metrics.ts'

let close: (() => void) | undefined
afterEach(() => close?.())

test('counters are served on a separate port, which serves nothing else', async () => {
  const metrics = createMetrics('api')
  const server = await serveMetrics(metrics, { host: '127.0.0.1', port: 0, names: [] })
  close = () => server.close()
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  metrics.decisions.inc({ source: 'agents', verdict: 'deny' })
  metrics.unapprovedCalls.inc()
  const text = await (await fetch(`${base}/metrics`)).text()
  expect(text).toContain('countersign_decisions_total{source="agents",verdict="deny",process="api"} 1')
  expect(text).toContain('countersign_decisions_total{source="agents",verdict="allow",process="api"} 0')
  expect(text).toContain('countersign_agent_unapproved_calls_total{process="api"} 1')
  expect(text).toContain('process_resident_memory_bytes')
  for (const [path, method] of [
    ['/', 'GET'],
    ['/metrics/x', 'GET'],
    ['/metrics', 'POST'],
  ])
    expect((await fetch(`${base}${path}`, { method: method as string })).status).toBe(404)

  // `fetch` does not let a program choose the host.
  const [rebound] = await once(get(`${base}/metrics`, { headers: { host: 'evil.example' } }), 'response')
  expect(rebound.resume().statusCode).toBe(421)
})
