import { afterAll, beforeAll, expect, test } from '@jest/globals'
import type { Client } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import type { Log } from '../../src/shared/log.ts'
import { hasSearchAttributes } from '../../src/shared/search-attributes.ts'
import { createTemporalClient } from '../../src/shared/temporal-connection.ts'
import { until } from '../stack/until.ts'
import { testTemporal } from '../support/stack.ts'

/** Temporal's numbers of value types. */
const keyword = 2
const keywordList = 7
const day = msToTs('1 day')

let address: string
const clients: ReturnType<typeof createTemporalClient>[] = []
beforeAll(async () => {
  address = (await testTemporal()).address
})
afterAll(() => Promise.all(clients.map((client) => client.connection.close())))

/** A client of a new namespace with these attributes. */
async function clientWith(namespace: string, searchAttributes: Record<string, number>): Promise<Client> {
  const config = { address, namespace, taskQueue: 'q', tls: false, apiKey: null, tlsCertFile: null, tlsKeyFile: null } // prettier-ignore
  const client = createTemporalClient(config)
  clients.push(client)
  const { workflowService, operatorService } = client.connection
  await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: day })
  await until('the namespace is there', () =>
    operatorService.addSearchAttributes({ namespace, searchAttributes }).then(
      () => true,
      () => false,
    ),
  )
  return client
}

test('missing ones are registered', async () => {
  const client = await clientWith('missing', { CountersignState: keyword })
  const warnings: unknown[] = []
  expect(await hasSearchAttributes(client, { warn: (...all: unknown[]) => warnings.push(all) } as unknown as Log)).toBe(true) // prettier-ignore
  expect(warnings).toEqual([])
  const { customAttributes } = await client.connection.operatorService.listSearchAttributes({
    namespace: 'missing',
  })
  expect(customAttributes).toMatchObject({ CountersignWaitingOn: keywordList, CountersignRisk: keyword })
})

test('if one has another type, runs go without it, and the log says what to create', async () => {
  const client = await clientWith('wrong', { CountersignWaitingOn: keyword })
  const warnings: string[] = []
  const log = {
    warn: ({ err }: { err: Error }, text: string) => warnings.push(err.message, text),
  } as unknown as Log
  expect(await hasSearchAttributes(client, log)).toBe(false)
  expect(warnings.join(' ')).toMatch(
    /^CountersignWaitingOn: has another type .*CountersignWaitingOn \(KeywordList\)/,
  )
})
