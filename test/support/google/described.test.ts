import { expect, test } from '@jest/globals'
import { described, issuesOfRequest, type Method } from './described.ts'

const drive = described('drive.v3')
const methodOf = (id: string): Method => drive.methods.find((each) => each.id === id) as Method

function issues(method: Method, query: Record<string, string>, path: Record<string, string> = {}): string[] {
  return issuesOfRequest(drive, method, { path, query: new URLSearchParams(query), body: undefined })
}

test.each([
  ['kind,files(id,name)', []],
  ['*', []],
  ['files/shortcutDetails/targetId,files.appProperties.countersign', []],
  ['kind,file(id)', ['no fields.file']],
  ['files(id,title)', ['no fields.files.title']],
  ['files/shortcutDetails(targetId,target)', ['no fields.files.shortcutDetails.target']],
  ['kind/id', ['no fields.kind.id']],
  ['files(id', ['no fields.']],
])('the mask %s has these unknown names: %j', (fields, wrong) => {
  expect(issues(methodOf('drive.files.list'), { fields })).toEqual(wrong)
})

test('a required parameter that is missing or empty is an issue', () => {
  const get = methodOf('drive.files.get')
  expect(issues(get, {}, { fileId: 'a' })).toEqual([])
  expect(issues(get, {}, { fileId: '' })).toEqual(['fileId is required'])
  const parameters = { q: { type: 'string', location: 'query', required: true } }
  const search: Method = { ...methodOf('drive.files.list'), parameters }
  expect(issues(search, {})).toEqual(['q is required'])
  expect(issues(search, { q: 'x' })).toEqual([])
})
