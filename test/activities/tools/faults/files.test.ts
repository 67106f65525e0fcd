import { beforeAll, describe, expect, test } from '@jest/globals'
import { changeQuota } from '../../../../src/governance/limits/quota.ts'
import { useEngine, type Engine } from '../../../governance/runs/engine-fixture.ts'
import type { Fault } from '../../../support/fault-proxy.ts'
import { askAt } from './ask.ts'
import { Call } from './call.ts'
import { commentsOf, commentsWithFiles } from './files.ts'
import { useProxied } from './proxied.ts'
import type { Ended } from './service.ts'

/*
 * Comments with a file: the file is written first, then the comment. In the end there is one file and one comment, or
 * there is neither and the step says so, or a person is asked.
 */

let engine: Engine
useEngine((started) => (engine = started))
// The runs of these calls never end, and each run keeps its slot.
beforeAll(() => changeQuota(engine.context, engine.caller('owner'), { concurrent_executions: 10_000 }))

type End = readonly [state: Ended['state'], comments: number, files: number]
const both: End = ['completed', 1, 1]
const asksAboutFile: End = ['unknown_outcome', 0, 1]
const neither: End = ['failed', 0, 0]

const rows: readonly (readonly [what: string, write: 'file' | 'comment', fault: Fault, end: End])[] = [
  ['nothing goes wrong', 'file', 'pass', both],
  ['the connection is cut before', 'file', 'cut', both],
  ['the answer is lost', 'file', 'lose answer', asksAboutFile],
  ['the answer breaks off', 'file', 'break off', asksAboutFile],
  ['HTML comes back', 'file', 'garble', asksAboutFile],
  ['502 comes back after it was carried out', 'file', 'fail after', asksAboutFile],
  ['503 comes back', 'file', { status: 503 }, both],
  ['429 comes back', 'file', { status: 429 }, both],
  ['it is refused', 'file', { status: 413 }, neither],
  ['the connection is cut before', 'comment', 'cut', asksAboutFile],
  ['the answer is lost', 'comment', 'lose answer', both],
  ['the answer breaks off', 'comment', 'break off', both],
  ['HTML comes back', 'comment', 'garble', both],
  ['502 comes back after it was carried out', 'comment', 'fail after', both],
  ['503 comes back', 'comment', { status: 503 }, asksAboutFile],
  ['429 comes back', 'comment', { status: 429 }, asksAboutFile],
  ['it is refused', 'comment', { status: 403 }, asksAboutFile],
]

describe.each(commentsWithFiles)('$tool with a file', (given) => {
  const { service, tool } = given
  const proxied = useProxied(service, () => engine)

  test.each(rows)('if %s, for its %s', async (_, write, fault, [state, comments, files]) => {
    const text = `t${Math.random().toString(36).slice(2)}`
    const ask = askAt(service, proxied.url)
    const made = () => commentsOf(given)(ask, text, service.place, proxied.url)
    const call = await Call.start({ engine, tool, params: given.params(text), made })
    let writes = 0
    proxied.ofWrites = () => {
      writes += 1
      return writes === (write === 'file' ? 1 : 2) ? fault : 'pass'
    }
    const ended = await (await call.untilOver()).ended()
    const told = { state: ended.state, comments: ended.made, files: await given.files(ask, text) }
    expect(told).toEqual({ state, comments, files })
  })
})
