import { expect, test } from '@jest/globals'
import { readDocsPage } from './docs-page.ts'

test('the page’s commands do what it says', async () => {
  const said = await readDocsPage('docs/people-and-keys.md')
  expect(said).toEqual([
    '',
    '',
    'ana@larkspur.example\nAna\nAna: owner, free, personal: true',
    'conflict\ntrue\ntrue',
    'ana@larkspur.example\ntrue',
    'true\nunauthenticated\nana@larkspur.example\npassword+totp',
    'member@countersign.test\nnot_found\nadmin\nana@larkspur.example: owner\nmember@countersign.test: admin',
    'true\nmfa_required',
    'viewer\nconflict\n\nnot_found',
    'member@countersign.test\ntrue\ntrue',
    '0\nneeds the scope `memory:read`\nmissing_scope\n\nunauthenticated',
    'organization.created member.invited member.joined governance.updated member.role_changed member.removed api_key.created api_key.revoked',
  ])
})
