/* The same as reach.c, with every connect(2) as a request of io_uring: no system call of its own tells of it. */
#include <liburing.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int done(struct io_uring *ring)
{
	struct io_uring_cqe *entry;
	int result;

	io_uring_submit(ring);
	if (io_uring_wait_cqe(ring, &entry) < 0)
		return -1;
	result = entry->res;
	io_uring_cqe_seen(ring, entry);
	return result;
}

int main(int count, char **words)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *each;
	static const char request[] = "GET / HTTP/1.0\r\n\r\n";
	struct io_uring ring;
	char bytes[4096];
	int length, s = -1;

	if (count < 2 || io_uring_queue_init(8, &ring, 0) < 0 || getaddrinfo(words[1], "80", &hints, &list) != 0)
		return 1;
	for (each = list; each != NULL; each = each->ai_next) {
		s = socket(each->ai_family, each->ai_socktype, each->ai_protocol);
		io_uring_prep_connect(io_uring_get_sqe(&ring), s, each->ai_addr, each->ai_addrlen);
		if (done(&ring) == 0)
			break;
		close(s);
	}
	if (each == NULL)
		return 2;
	io_uring_prep_send(io_uring_get_sqe(&ring), s, request, strlen(request), 0);
	if (done(&ring) < 0)
		return 3;
	while ((length = read(s, bytes, sizeof bytes)) > 0)
		if (write(1, bytes, length) != length)
			return 4;
	return length < 0 ? 5 : 0;
}
