import { describe, expect, test } from '@jest/globals'
import { comparable, couldBecomeGoogleLink, googleFileId } from '../../src/policy/google-links.ts'

const id = '1AbC_d-EfG'

describe('Google links', () => {
  test.each([
    `https://docs.google.com/document/d/${id}/edit#heading=h.1`,
    `https://docs.google.com/spreadsheets/d/${id}`,
    `https://docs.google.com/spreadsheets/u/1/d/${id}/edit?gid=0#gid=0`,
    `https://docs.google.com/a/acme.com/presentation/d/${id}/view`,
    `https://drive.google.com/file/d/${id}/view?usp=sharing`,
    `https://drive.google.com/open?id=${id}`,
    `https://drive.google.com/uc?export=download&id=${id}`,
    `https://drive.google.com/drive/folders/${id}`,
    `http://DOCS.google.com/document/d/${id}`,
    `docs.google.com/document/d/${id}`,
    `//docs.google.com/document/d/${id}`,
    `https://x@docs.google.com:443/document/d/${id}`,
    `https://docs.google.com./document//d//${id}`,
    `https://docs.google.com/document/%64/${id}`,
    ` https://docs.google.com/document/d/${id} `,
  ])('%s is the bare file id', (link) => {
    expect(googleFileId(link)).toBe(id)
    expect(comparable(link)).toBe(comparable(id))
  })

  test.each([
    `https://docs.google.com.evil.net/document/d/${id}`,
    `https://evil.net/docs.google.com/document/d/${id}`,
    `https://docs.google.com@evil.net/document/d/${id}`,
    `see docs.google.com/document/d/${id}`,
    'https://docs.google.com/document',
    id,
  ])('%s is no link to a file', (text) => {
    expect(googleFileId(text)).toBeNull()
    expect(comparable(text)).toBe(text)
  })

  test.each(['', 'h', 'https://do', 'https://docs.google.com/document/d/', 'docs.goo', ' drive.google.com/'])(
    'text starting with %j could become one',
    (prefix) => {
      expect(couldBecomeGoogleLink(prefix)).toBe(true)
    },
  )

  test.each(['1AbC', 'a@acme.com', 'docs.acme', 'Hello '])('text starting with %j could not', (prefix) => {
    expect(couldBecomeGoogleLink(prefix)).toBe(false)
  })
})
