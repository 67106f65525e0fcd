import { expect, test } from '@jest/globals'
import { readDocsPage } from './docs-page.ts'

test('the page’s commands do what it says', async () => {
  const said = await readDocsPage('docs/people-and-keys.md')
  expect(said).toEqual([
    '',
    '',
    'ana@larkspur.example\nAna\nAna owner free true',
    'conflict\ntrue\ntrue',
    'ana@larkspur.example\ntrue',
    'true\nunauthenticated\nana@larkspur.example\npassword+totp',
    'member@countersign.test\nnot_found\nadmin\nana@larkspur.example owner\nmember@countersign.test admin',
    'true\nmfa_required',
    'viewer\nconflict\n\nnot_found',
    'member@countersign.test\nfalse\ntrue',
    '0\nneeds the scope `memory:read`\nmissing_scope\n\nunauthenticated',
    'api_key.revoked\napi_key.created\nmember.removed\nmember.role_changed\ngovernance.updated\nmember.joined\nmember.invited\norganization.created',
  ])
})
