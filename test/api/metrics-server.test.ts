import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from '@jest/globals'
import { serveMetrics } from '../../src/api/metrics-server.ts'
import { createMetrics } from '../../src/metrics.ts'

let close: (() => void) | undefined
afterEach(() => close?.())

test('what is counted is served on a port of its own, and nothing else is', async () => {
  const metrics = createMetrics('api')
  const server = await serveMetrics(metrics, { host: '127.0.0.1', port: 0 })
  close = () => server.close()
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  metrics.agentDecision('deny')
  metrics.unapprovedCall()
  const text = await (await fetch(`${base}/metrics`)).text()
  expect(text).toContain('countersign_agent_decisions_total{decision="deny",process="api"} 1')
  expect(text).toContain('countersign_agent_decisions_total{decision="allow",process="api"} 0')
  expect(text).toContain('countersign_agent_unapproved_calls_total{process="api"} 1')
  expect(text).toContain('process_resident_memory_bytes')
  for (const [path, method] of [
    ['/', 'GET'],
    ['/metrics/x', 'GET'],
    ['/metrics', 'POST'],
  ])
    expect((await fetch(`${base}${path}`, { method: method as string })).status).toBe(404)
})
