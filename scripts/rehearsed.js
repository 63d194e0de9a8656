// What code-caches.mjs plays through in a context of runtime globals: their common uses. No part of any build.
(async () => {
  const target = new EventTarget();
  target.addEventListener('x', () => {}, { once: true });
  target.dispatchEvent(new Event('x'));
  const controller = new AbortController();
  AbortSignal.any([controller.signal]).addEventListener('abort', () => {});
  controller.abort();
})();
