import { attachedOf } from '../kit/attachment.ts'
import { OutcomeUnknown } from '../kit/executor.ts'
import { beforeSending, markOf } from '../kit/marker.ts'
import type { FinderOf, ToolBody } from '../kit/params.ts'
import { listIn, listsOf, trelloOf } from './client.ts'
import { files, made, madeCard, markedComments, mostLooked } from './forms.ts'
import { withMark } from './mark.ts'
import { cardIdOf } from './place.ts'
import { cardAt } from './reads.ts'

/*
 * Trello takes no idempotency key, and stores no hidden data with a card or comment. So the text of a card or comment
 * ends with the mark of its call.
 */

export const createCard: ToolBody<'trello_create_card'> = async (call, context) => {
  const { board, list, name, description = '' } = call.params
  const trello = await trelloOf(call, context, 'trello_create_card')
  const idList = listIn(await listsOf(trello, board), list)
  await context.pointOfNoReturn()
  const { id, url } = await trello.write(madeCard, {
    method: 'POST',
    path: '/1/cards',
    body: { idList, name, desc: withMark(description, call), pos: 'bottom' },
  })
  return { output: { id, url } }
}

/** The file is attached before the comment is made. So a marked comment shows that the whole call was carried out. */
export const comment: ToolBody<'trello_comment'> = async (call, context) => {
  const attached = attachedOf(call.params)
  const trello = await trelloOf(call, context, 'trello_comment')
  const card = await cardAt(trello, call.params.card)
  await context.pointOfNoReturn()
  if (attached !== null) {
    const form = new FormData()
    form.append('name', attached.name)
    form.append('file', attached.file, attached.name)
    await trello.write(made, { method: 'POST', path: `/1/cards/${card.id}/attachments`, body: form })
  }
  const sent = trello.write(made, {
    method: 'POST',
    path: `/1/cards/${card.id}/actions/comments`,
    body: { text: withMark(call.params.text, call) },
  })
  const { id } = await sent.catch((error: unknown) => {
    if (attached === null) throw error
    throw new OutcomeUnknown('the file was attached, and Trello did not confirm the comment')
  })
  return { output: { id, url: `${card.url}#comment-${id}` } }
}

export const findComment: FinderOf<'trello_comment'> = async (call, context, look) => {
  const attached = attachedOf(call.params)
  const trello = await trelloOf(call, context, 'trello_comment')
  const path = `/1/cards/${cardIdOf(call.params.card)}`
  const since = beforeSending(look)
  const listed = await trello.read(markedComments, {
    method: 'GET',
    path: `${path}/actions`,
    query: { filter: 'commentCard', since: since.toISOString(), limit: mostLooked, fields: 'data' },
  })
  const found = listed.find(({ data }) => data.text?.includes(markOf(call)))
  if (found !== undefined) {
    const { url } = await cardAt(trello, call.params.card)
    return { kind: 'done', output: { id: found.id, url: `${url}#comment-${found.id}` } }
  }
  if (listed.length === mostLooked) return { kind: 'unclear' }
  // No marked comment was found. A new file with this name may still be from this call: the call attaches the file
  // first, and may have stopped before it made the comment.
  return { kind: attached !== null && (await hasFile(attached.name)) ? 'unclear' : 'absent' }

  async function hasFile(name: string): Promise<boolean> {
    const all = await trello.read(files, {
      method: 'GET',
      path: `${path}/attachments`,
      query: { fields: 'name,date' },
    })
    return all.some((each) => each.name === name && !(Date.parse(each.date) < since.getTime()))
  }
}
