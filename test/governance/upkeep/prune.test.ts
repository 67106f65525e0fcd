import { expect, test } from '@jest/globals'
import { newId } from '../../../src/contract/ids.ts'
import { prune } from '../../../src/governance/upkeep/housekeeping.ts'
import { useEngine, type Engine } from '../runs/engine-fixture.ts'

let engine: Engine
useEngine((started) => (engine = started))

test('claims of Slack accounts are deleted after a day, with their codes', async () => {
  const { db } = engine.context
  const claim = async (hours: number): Promise<string> => {
    const id = newId('notification')
    const created_at = new Date(Date.now() - hours * 3_600_000)
    await db
      .insertInto('slack_claims')
      .values({
        id,
        organization_id: engine.organizationId,
        user_id: engine.caller('member').userId,
        slack_account: 'U000MEMBER',
        code: '12345678',
        created_at,
        expires_at: created_at,
      })
      .execute()
    return id
  }
  await claim(25)
  const younger = await claim(23)
  await prune(db)
  expect(await db.selectFrom('slack_claims').select('id').execute()).toEqual([{ id: younger }])
})
