import { describe, expect, test } from '@jest/globals'
import { comparable, couldBecomeGoogleLink, googleFileId } from '../../../src/policy/readers/google-links.ts'

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
    `https://docs.google.com/document/d/${id}/mobilebasic`,
    `https://docs.google.com/document/u/0/d/${id}/preview?tab=t.0#bookmark=id.x`,
    `https://docs.google.com/presentation/d/${id};x/edit`,
    `https://docs.google.com/spreadsheet/ccc?key=${id}`,
    `https://docs.google.com/viewer?srcid=${id}`,
    `https://drive.google.com/drive/u/0/folders/${id}?resourcekey=0-x`,
    `https://drive.google.com/drive/mobile/folders/${id}`,
    `https://drive.google.com/u/0/uc?id=${id}&export=download`,
    `https://drive.google.com/open?authuser=0&id=${id}`,
    `https://drive.usercontent.google.com/download?id=${id}&confirm=t`,
    `https://lh3.googleusercontent.com/d/${id}`,
    `https://docs。google。com/document/d/${id}`,
    `https://ｄｏｃｓ.google.com/document/d/${id}`,
    `https://docs%2egoogle.com/document/d/${id}`,
    `https://docs.goo\tgle.com/document/d/${id}`,
    `docs.google.com:443/document/d/${id}`,
    // other kinds of documents and addresses
    `https://docs.google.com/spreadsheets/d/e/${id}/pubhtml?gid=0&single=true`,
    `https://docs.google.com/spreadsheets/d/${id}/export?format=csv&gid=0`,
    `https://docs.google.com/spreadsheets/d/${id}/gviz/tq?tqx=out:csv`,
    `https://docs.google.com/forms/d/${id}/viewform`,
    `https://docs.google.com/drawings/d/${id}/pub`,
    `https://docs.google.com/Doc?docid=${id}`,
    `https://docs.google.com/gview?embedded=true&srcid=${id}`,
    `https://spreadsheets.google.com/ccc?key=${id}`,
    `https://drive.google.com/folderview?id=${id}`,
    `https://drive.google.com/#folders/${id}`,
    `https://drive.google.com/thumbnail?sz=w1&id=${id}`,
    `https://drive.google.com/uc?export=view&amp;id=${id}`,
    `https://drive.google.com/a/acme.com/file/d/${id}/preview`,
    `https://lh3.google.com/u/0/d/${id}=w100`,
    `https://lh4.googleusercontent.com/d/${id}`,
    // addresses of the Google APIs
    `https://sheets.googleapis.com/v4/spreadsheets/${id}/values/A1:B2`,
    `https://sheets.googleapis.com/v4/spreadsheets/${id}:batchUpdate`,
    `https://docs.googleapis.com/v1/documents/${id}`,
    `https://slides.googleapis.com/v1/presentations/${id}/pages/p`,
    `https://www.googleapis.com/drive/v3/files/${id}?alt=media`,
    `https://www.googleapis.com/upload/drive/v3/files/${id}`,
    // made to look like another file's link
    `https://docs.google.com/document/d/OTHER/../${id}/edit`,
    `https://docs.google.com/document/d/OTHER/%2e%2e/${id}/edit`,
    `https://docs.google.com/document/./d/./${id}`,
    `https://docs.google.com/document/d/${id}/OTHER//../x`,
    `https://docs.google.com/a/d/document/d/${id}`,
    `https://docs.google.com/document/d/%31AbC_d-EfG`,
    `https://docs.google.com/document/d/${id}%2Fedit`,
    `http:\\\\docs.google.com\\document\\d\\${id}`,
    `https://drive.google.com/open?i%64=${id}`,
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
    `https://docs.google.com/document/d/${id}/../../x`,
    `https://www.googleapis.com/calendar/v3/calendars/${id}`,
    `https://docs.googleapis.com.evil.net/v1/documents/${id}`,
    `https://docs.google.com。evil.net/document/d/${id}`,
    `https://docsgoogle.com/document/d/${id}`,
    `https://docs.google.com%2eevil.net/document/d/${id}`,
    id,
  ])('%s is not a link to a file', (text) => {
    expect(googleFileId(text)).toBeNull()
    expect(comparable(text)).toBe(text)
  })

  test.each([
    '',
    'h',
    'ht\ttps',
    'ｄｏｃｓ.goo',
    'docs%2e',
    'docs。',
    'https://do',
    'https://docs.google.com/document/d/',
    'docs.goo',
    ' drive.google.com/',
  ])('text starting with %j could become a link', (prefix) => {
    expect(couldBecomeGoogleLink(prefix)).toBe(true)
  })

  test.each(['1AbC', 'a@acme.com', 'docs.acme', 'Hello '])('text starting with %j could not', (prefix) => {
    expect(couldBecomeGoogleLink(prefix)).toBe(false)
  })
})
