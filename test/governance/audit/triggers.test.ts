import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals'
import { checkAuditTriggers } from '../../../src/governance/audit/triggers.ts'
import { asAdmin } from '../../support/postgres.ts'
import { testContext, type TestContext } from '../support.ts'

let running: TestContext
beforeAll(async () => {
  running = await testContext()
})
afterAll(() => running.close())

/** Runs the check. Returns its result, the logged errors and the number of warnings. */
async function check(
  db = running.context.db,
): Promise<{ weak: string[]; errors: string[]; warnings: number }> {
  const { log } = running.context
  const error = jest.spyOn(log, 'error')
  const warn = jest.spyOn(log, 'warn')
  try {
    const weak = await checkAuditTriggers(db, log)
    return {
      weak,
      errors: error.mock.calls.map((call) => String(call.at(-1))),
      warnings: warn.mock.calls.length,
    }
  } finally {
    error.mockRestore()
    warn.mockRestore()
  }
}

const alter = (statement: string) => asAdmin(running.adminUrl, (client) => client.query(statement))

describe('the audit log’s triggers', () => {
  test('are enabled always after the migrations, and nothing is logged', async () => {
    expect(await check()).toEqual({ weak: [], errors: [], warnings: 0 })
  })

  test.each([
    ['disabled', ['disable trigger user']],
    ['left as they are after being disabled and enabled', ['disable trigger user', 'enable trigger user']],
    ['enabled for replicas only', ['enable replica trigger audit_events_no_edit', 'enable replica trigger audit_events_no_truncate']], // prettier-ignore
  ])('%s are named in an error, which says what to run', async (_, changes) => {
    for (const change of changes) await alter(`alter table audit_events ${change}`)
    const { weak, errors } = await check()
    expect(weak).toEqual(['audit_events_no_edit', 'audit_events_no_truncate'])
    expect(errors).toHaveLength(2)
    for (const error of errors) await alter(/`(.*)`/.exec(error)?.[1] ?? 'the error names no statement')
    expect(await check()).toEqual({ weak: [], errors: [], warnings: 0 })
  })

  test('only the missing one is named', async () => {
    await alter('drop trigger audit_events_no_truncate on audit_events')
    const { weak, errors } = await check()
    expect(weak).toEqual(['audit_events_no_truncate'])
    expect(errors).toEqual([expect.stringContaining('`audit_events_no_truncate` is missing')])
  })

  test('a database that does not answer stops nothing: the check logs a warning', async () => {
    const gone = running.another()
    await checkAuditTriggers(gone.db, gone.log)
    await gone.close()
    expect(await check(gone.db)).toEqual({ weak: [], errors: [], warnings: 1 })
  })
})
