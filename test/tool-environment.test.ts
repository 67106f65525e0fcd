import { execFile } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import { readQuota } from '../src/governance/quotas/quota.ts'
import { loadSecrets } from '../src/stack/secrets.ts'
import { toolEnvironment } from '../src/tool-environment.ts'
import { testContext, withPeople } from './governance/support.ts'
import { temporaryFolder } from './stack/temporary-folder.ts'

const url = 'postgresql://countersign_app:hidden@127.0.0.1:5439/countersign'

function dataFolder(databaseUrl = url): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'bootstrap.json'), JSON.stringify({ database_url: databaseUrl }))
  return folder
}

test('beside a stack, its database and keys are used, and said without the password', () => {
  const folder = dataFolder()
  const secrets = loadSecrets(folder)
  const said: string[] = []
  const env = toolEnvironment({ DATA_DIR: folder, DATABASE_URL: '', LOG_LEVEL: 'error' }, (line) =>
    said.push(line),
  )
  expect(env).toEqual({
    DATA_DIR: folder,
    DATABASE_URL: url,
    DATA_ENCRYPTION_KEY: secrets.data_encryption_key,
    SESSION_SECRET_KEY: secrets.session_secret_key,
    LOG_LEVEL: 'error',
  })
  expect(said).toEqual([expect.stringContaining('127.0.0.1:5439/countersign')])
  expect(said[0]).toContain(folder)
  expect(said[0]).not.toContain('hidden')
  expect(toolEnvironment({ DATA_DIR: folder, DATA_ENCRYPTION_KEY: 'mine' }, () => undefined)).toMatchObject({
    DATA_ENCRYPTION_KEY: 'mine',
  })
})

test.each([
  ['an environment that names a database', () => ({ DATABASE_URL: url, DATA_DIR: dataFolder() })],
  ['a folder without a stack', () => ({ DATA_DIR: temporaryFolder() })],
])('%s stays as it is', (_what, make) => {
  const env = make()
  const said: string[] = []
  expect(toolEnvironment(env, (line) => said.push(line))).toBe(env)
  expect(said).toEqual([])
  expect(existsSync(join(env.DATA_DIR, 'secrets.json'))).toBe(false)
})

test('a bootstrap.json that cannot be read is named', () => {
  const folder = dataFolder('nowhere')
  expect(() => toolEnvironment({ DATA_DIR: folder }, () => undefined)).toThrow(`${folder}/bootstrap.json`)
})

test('`npm run set-plan` moves an organization of the stack that runs there, and sets its limits', async () => {
  const running = await testContext()
  try {
    const { identities } = await withPeople(running.context)
    const { DATABASE_URL: _, DATA_ENCRYPTION_KEY: __, ...env } = process.env
    const program = fileURLToPath(new URL('../src/set-plan.ts', import.meta.url))
    const dataDir = dataFolder(running.context.config.database.url)
    // An operator sets limits also where owners may not.
    const options = { env: { ...env, DATA_DIR: dataDir, QUOTA_OVERRIDES: 'operator' } }
    const setPlan = (...args: string[]) =>
      promisify(execFile)(process.execPath, [program, identities.organization_id, ...args], options)
    const { stdout, stderr } = await setPlan('free', 'memory_mb=1024', 'monthly_spend=7')
    expect(JSON.parse(stdout)).toMatchObject({
      plan: 'free',
      overrides: { memory_mb: 1024, monthly_spend: 7 },
      effective: { memory_mb: 1024 },
    })
    expect(stderr).toContain('the database of')
    expect(JSON.parse((await setPlan('pro', 'memory_mb=plan')).stdout).overrides).toEqual({
      monthly_spend: 7,
    })
    for (const [args, code, said] of [
      [['free', 'memory_mb=25601'], 1, 'at most 25600'],
      [['free', 'memory_mb=0'], 2, 'memory_mb'],
      [['free', 'memory_mb'], 2, 'is no override'],
      [['free', 'memory=1'], 2, 'memory'],
      [['gold'], 1, 'gold'],
      [[], 2, 'usage'],
    ] as const)
      await expect(setPlan(...args)).rejects.toMatchObject({
        code,
        stdout: '',
        stderr: expect.stringContaining(said),
      })
    await setPlan('free')
    expect(await readQuota(running.context, identities.organization_id)).toMatchObject({ plan: 'free' })
  } finally {
    await running.close()
  }
})
