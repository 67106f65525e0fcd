import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { firstSteps } from '../../src/stack/first-steps.ts'
import { temporaryFolder } from './temporary-folder.ts'

const local = { publicUrl: null, database: null, production: false } as const
const url = 'http://127.0.0.1:8080'
const consoleLine = 'console: http://127.0.0.1:8080/console/'

function folderWith(identities: object): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'bootstrap.json'), JSON.stringify(identities))
  return folder
}

const person = { user_id: 'usr_1', email: 'a@x.example', password: 'hunter2', api_key: 'hunter3' }
const made = {
  organization_id: 'org_1',
  users: { owner: person, admin: person, approver: person, member: person, viewer: person },
  agent_key: 'hunter4',
}

test('names the console and the file with the passwords and keys, and shows none of them', () => {
  const folder = folderWith(made)
  const lines = firstSteps(local, folder, url)
  expect(lines).toEqual([
    consoleLine,
    `sign in: ${join(folder, 'bootstrap.json')} has five people with their passwords and API keys`,
  ])
  expect(lines.join()).not.toContain('hunter')
})

test('names no file that has nobody, and none in production', () => {
  expect(firstSteps(local, temporaryFolder(), url)).toEqual([consoleLine])
  expect(firstSteps(local, folderWith({ base_url: url }), url)).toEqual([consoleLine])
  expect(firstSteps({ ...local, production: true }, folderWith(made), url)).toEqual([consoleLine])
})

test('with a database of your own, names the command that makes the first owner', () => {
  const database = { url: 'postgres://db/x', ownerUrl: 'postgres://db/x' }
  const settings = { publicUrl: 'https://countersign.example.com', database, production: true }
  expect(firstSteps(settings, temporaryFolder(), url)).toEqual([
    'console: https://countersign.example.com/console/',
    expect.stringContaining('npm run create-owner -- EMAIL'),
  ])
})
