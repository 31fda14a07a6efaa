/** Files out of a drop or a chooser, folders included, each with its path below what was dropped. */

/** @typedef {{file: File, path: string}} Picked path empty for a file on its own */

/**
 * @param {FileList | null} files
 * @returns {Picked[]}
 */
export function fromChooser(files) {
  return [...(files ?? [])].map((file) => ({ file, path: file.webkitRelativePath }));
}

/**
 * Reads a drop. Must be called while the drop event is handled: its items are gone afterwards.
 *
 * @param {DataTransfer} transfer
 * @returns {Promise<Picked[]>}
 */
export async function fromDrop(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (entries.length === 0) return fromChooser(transfer.files);
  const nested = await Promise.all(entries.map((entry) => walk(entry)));
  return nested.flat();
}

/**
 * @param {FileSystemEntry} entry
 * @returns {Promise<Picked[]>}
 */
async function walk(entry) {
  const path = entry.fullPath.replace(/^\//, '');
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => {
      /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject);
    });
    return [{ file, path: path.includes('/') ? path : '' }];
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  /** @type {Picked[]} */
  const found = [];
  // A reader gives its entries in portions; an empty portion is the end.
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const portion = await new Promise((resolve, reject) => {
      reader.readEntries(resolve, reject);
    });
    if (portion.length === 0) return found;
    for (const inner of portion) found.push(...(await walk(inner)));
  }
}
