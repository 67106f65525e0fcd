import { describe, expect, test } from '@jest/globals'
import { fileIdAt } from '../../../../src/activities/tools/google/place.ts'
import { comparable } from '../../../../src/policy/readers/google-links.ts'

const id = '1abc-DEF_ghi'

describe('a file is the one that rules read', () => {
  test.each([
    id,
    `https://docs.google.com/document/d/${id}/edit`,
    `https://docs.google.com/document/u/1/d/${id}/edit?tab=t.0#heading=h.1`,
    `https://docs.google.com/a/acme.com/spreadsheets/d/${id}/edit#gid=7`,
    `docs.google.com/presentation/d/${id}`,
    `HTTPS://DOCS.GOOGLE.COM./document/d/${id}`,
    `https://drive.google.com/open?id=${id}`,
    `https://drive.google.com/drive/folders/${id}?usp=sharing`,
    `https://drive.google.com/file/d/${id}/view`,
    `https://www.googleapis.com/drive/v3/files/${id}`,
    ` https://docs.google.com/document/d/${id}\n`,
  ])('%j', (text) => {
    expect(fileIdAt('document', text)).toBe(id)
    expect(comparable(text)).toBe(id)
  })

  test.each([` ${id}`, `${id}\n`])('%j, with white space around the id', (text) => {
    expect(fileIdAt('document', text)).toBe(id)
  })

  test.each([
    '',
    `${id}/export`,
    `${id}?alt=media`,
    `../files/${id}`,
    `%31${id}`,
    `https://docs.google.com.evil.example/document/d/${id}`,
    `https://evil.example/docs.google.com/document/d/${id}`,
    `https://docs.google.com@evil.example/document/d/${id}`,
    `https://evil.example/?u=https://docs.google.com/document/d/${id}`,
    `https://docs.google.com/document/create?title=${id}`,
    `https://docs.googIe.com/document/d/${id}`,
    `${id} https://docs.google.com/document/d/other`,
  ])('%j is refused', (text) => {
    expect(() => fileIdAt('document', text)).toThrow('`document` must be a link')
  })
})
