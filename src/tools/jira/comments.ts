import { attachedOf } from '../kit/attachment.ts'
import { OutcomeUnknown } from '../kit/executor.ts'
import { beforeSending, markOf } from '../kit/marker.ts'
import type { FinderOf, ToolBody } from '../kit/params.ts'
import { jiraOf, type Jira } from './client.ts'
import { listedComments, madeComment, madeFiles, markedComments, markProperty, withFiles } from './forms.ts'
import { issueCalled } from './reads.ts'
import { documentOf } from './text.ts'

const urlOf = (jira: Jira, key: string, id: string): string => `${jira.pageOf(key)}?focusedCommentId=${id}`

/** The file is attached before the comment is made. So a marked comment shows that the whole call was carried out. */
export const comment: ToolBody<'jira_comment'> = async (call, context) => {
  const attached = attachedOf(call.params)
  const jira = await jiraOf(call, context, 'jira_comment')
  // Rules decided about the key in the call. `issueCalled` refuses a former key, because Jira would add the comment to
  // another issue.
  const { key } = await issueCalled(jira, call.params.issue)
  const body = documentOf(call.params.text)
  await context.pointOfNoReturn()
  if (attached !== null) {
    const form = new FormData()
    form.append('file', attached.file, attached.name)
    await jira.write(madeFiles, {
      method: 'POST',
      path: `/rest/api/3/issue/${key}/attachments`,
      body: form,
      // Jira refuses an upload without this header.
      headers: { 'x-atlassian-token': 'no-check' },
    })
  }
  const sent = jira.write(madeComment, {
    method: 'POST',
    path: `/rest/api/3/issue/${key}/comment`,
    body: { body, properties: [{ key: markProperty, value: { id: markOf(call) } }] },
  })
  const { id } = await sent.catch((error: unknown) => {
    if (attached === null) throw error
    throw new OutcomeUnknown('the file was attached, and Jira did not confirm the comment')
  })
  return { output: { id, url: urlOf(jira, key, id) } }
}

/** A finder reads at most this many pages of 100 entries. */
const mostPages = 10

export const findComment: FinderOf<'jira_comment'> = async (call, context, look) => {
  const attached = attachedOf(call.params)
  const jira = await jiraOf(call, context, 'jira_comment')
  const key = jira.issueAt(call.params.issue)
  const since = beforeSending(look).getTime()
  let seen = 0
  for (let page = 0; page < mostPages; page += 1) {
    const { comments, total } = await jira.read(listedComments, {
      method: 'GET',
      path: `/rest/api/3/issue/${key}/comment`,
      query: { orderBy: '-created', startAt: seen, maxResults: 100 },
    })
    const recent = comments.filter(({ created }) => !(Date.parse(created) < since))
    const found = await markedAmong(recent.map(({ id }) => id))
    if (found !== undefined) return { kind: 'done', output: { id: found, url: urlOf(jira, key, found) } }
    seen += comments.length
    // Jira may give fewer comments than were asked for, so a short page need not be the last page. The newest comments
    // come first. So after a comment that is older than the call, no comment of the call can follow.
    if (seen >= total || recent.length < comments.length)
      // No marked comment was found. A new file with this name may still be from this call: the call attaches the file
      // first, and may have stopped before it made the comment.
      return { kind: attached !== null && (await hasFile(attached.name)) ? 'unclear' : 'absent' }
    if (comments.length === 0) break
  }
  return { kind: 'unclear' }

  /**
   * Returns the id of the comment that has the mark of the call. Reads the properties of these comments, because the
   * list of an issue's comments does not show properties.
   */
  async function markedAmong(ids: readonly string[]): Promise<string | undefined> {
    if (ids.length === 0) return undefined
    const { values } = await jira.read(markedComments, {
      method: 'POST',
      path: '/rest/api/3/comment/list',
      query: { expand: 'properties' },
      body: { ids: ids.map(Number) },
    })
    const mark = markOf(call)
    return values.find(({ properties }) => properties?.some((each) => each?.value.id === mark))?.id
  }

  async function hasFile(name: string): Promise<boolean> {
    const { fields } = await jira.read(withFiles, {
      method: 'GET',
      path: `/rest/api/3/issue/${key}`,
      query: { fields: 'attachment' },
    })
    return fields.attachment.some((each) => each.filename === name && !(Date.parse(each.created) < since))
  }
}
