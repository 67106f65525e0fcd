import { createServer, type AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { temporalCheck } from '../../../src/api/temporal-check.ts'
import { watchTemporal } from '../../../src/governance/delivery/temporal-watch.ts'
import { createTemporalClient } from '../../../src/shared/temporal-connection.ts'
import { testContext, type TestContext } from '../support.ts'
import { testTemporal } from '../../support/stack.ts'

let running: TestContext
beforeAll(async () => {
  running = await testContext()
})
afterAll(() => running.close())

/** A check of the Temporal server at this address. */
function checkOf(address: string) {
  const client = createTemporalClient({ ...running.context.config.temporal, address })
  return { check: temporalCheck(client.connection), close: () => client.connection.close() }
}

test('a process knows when Temporal does not answer, and when it does again', async () => {
  const { context } = running
  const there = checkOf((await testTemporal()).address)
  const refusing = checkOf('127.0.0.1:1')
  await watchTemporal(context, there.check)
  expect(context.isTemporalAway).toBe(false)
  await watchTemporal(context, refusing.check)
  expect(context.isTemporalAway).toBe(true)
  await watchTemporal(context, there.check)
  expect(context.isTemporalAway).toBe(false)
  await Promise.all([there.close(), refusing.close()])
})

test('a server that takes the connection and says nothing does not answer', async () => {
  const silent = createServer(() => undefined).listen(0, '127.0.0.1')
  await new Promise((resolve) => silent.once('listening', resolve))
  const { check, close } = checkOf(`127.0.0.1:${(silent.address() as AddressInfo).port}`)
  await watchTemporal(running.context, check)
  expect(running.context.isTemporalAway).toBe(true)
  await close()
  silent.close()
})
