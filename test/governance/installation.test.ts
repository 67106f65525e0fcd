import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { createSealer } from '../../src/governance/seal.ts'
import { checkInstallation, WrongKey } from '../../src/governance/installation.ts'
import { testContext } from './support.ts'

let made: Awaited<ReturnType<typeof testContext>>
beforeAll(async () => {
  made = await testContext()
})
afterAll(() => made.close())

describe('checkInstallation', () => {
  test('lets in whoever holds the key of the first process, and nobody else', async () => {
    const { context } = made
    await Promise.all([checkInstallation(context), checkInstallation(context)])
    await checkInstallation(context)
    const other = { ...context, sealer: createSealer(randomBytes(32)) }
    await expect(checkInstallation(other)).rejects.toBeInstanceOf(WrongKey)
    expect(await context.db.selectFrom('installation').select('singleton').execute()).toHaveLength(1)
  })
})
